"""The protobuf messages of a GraphDef, described here so that reading a file does not import TensorFlow.

Importing TensorFlow takes many times longer than reading a frozen graph. Its wire format has been stable since its
first version; only the fields that an importer needs are described, all others are skipped. The messages live in a
descriptor pool of their own and never meet TensorFlow's.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "autofusion.graphdef"

DATA_TYPES = (
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16 QINT16 "
    "QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E4M3FNUZ "
    "FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ INT4 UINT4 INT2 UINT2"
).split()
"""Names of the element types, by number."""

# Message -> its fields: "name number type", with a star for repeated ones. A type in capitals is another message.
_MESSAGES = {
    "GraphDef": "node 1 NodeDef*, versions 4 VersionDef, version 3 int32, library 2 FunctionDefLibrary",
    "VersionDef": "producer 1 int32, min_consumer 2 int32, bad_consumers 3 int32*",
    "NodeDef": "name 1 string, op 2 string, input 3 string*, device 4 string, attr 5 Attrs*",
    "Attrs": "key 1 string, value 2 AttrValue",
    "AttrValue": (
        "list 1 AttrList, s 2 bytes, i 3 int64, f 4 float, b 5 bool, type 6 DataType, shape 7 TensorShapeProto, "
        "tensor 8 TensorProto, placeholder 9 string, func 10 NameAttrList"
    ),
    "AttrList": (
        "s 2 bytes*, i 3 int64*, f 4 float*, b 5 bool*, type 6 DataType*, shape 7 TensorShapeProto*, "
        "tensor 8 TensorProto*, func 9 NameAttrList*"
    ),
    "NameAttrList": "name 1 string, attr 2 Attrs*",
    "TensorShapeProto": "dim 2 Dim*, unknown_rank 3 bool",
    "Dim": "size 1 int64, name 2 string",
    "TensorProto": (
        "dtype 1 DataType, tensor_shape 2 TensorShapeProto, version_number 3 int32, tensor_content 4 bytes, "
        "half_val 13 int32*, float_val 5 float*, double_val 6 double*, int_val 7 int32*, string_val 8 bytes*, "
        "scomplex_val 9 float*, int64_val 10 int64*, bool_val 11 bool*, dcomplex_val 12 double*, "
        "uint32_val 16 uint32*, uint64_val 17 uint64*, float8_val 18 bytes"
    ),
    "FunctionDefLibrary": "function 1 FunctionDef*",
    "FunctionDef": "signature 1 OpDef, attr 5 Attrs*, node_def 3 NodeDef*, ret 4 Ret*",
    "Ret": "key 1 string, value 2 string",
    "OpDef": "name 1 string, input_arg 2 ArgDef*, output_arg 3 ArgDef*",
    "ArgDef": "name 1 string, type 3 DataType, type_attr 4 string, number_attr 5 string, type_list_attr 6 string",
}
_MAPS = {"Attrs", "Ret"}
_ONEOF = "AttrValue"


@cache
def _classes() -> dict[str, Any]:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="autofusion/graphdef.proto", package=_PACKAGE, syntax="proto3")
    file.enum_type.add(
        name="DataType",
        value=[
            descriptor_pb2.EnumValueDescriptorProto(name=f"DT_{name}", number=number + offset)
            # Files of TensorFlow 1 may hold types of reference variables, numbered from 100.
            for offset, suffix in ((0, ""), (100, "_REF"))
            for number, base in enumerate(DATA_TYPES)
            for name in (base + suffix,)
            if not (offset and number == 0)
        ],
    )
    for name, fields in _MESSAGES.items():
        if name in _MAPS:
            continue
        message = file.message_type.add(name=name)
        if name == _ONEOF:
            message.oneof_decl.add(name="value")
        for text in fields.split(", "):
            label, number, kind = text.split()
            repeated = kind.endswith("*")
            added = message.field.add(name=label, number=int(number))
            added.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            if kind in _MAPS:
                entry = message.nested_type.add(name=label.capitalize() + "Entry")
                entry.options.map_entry = True
                for part in _MESSAGES[kind].split(", "):
                    key, at, type_ = part.split()
                    _typed(entry.field.add(name=key, number=int(at), label=field.LABEL_OPTIONAL), type_)
                added.type, added.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{name}.{entry.name}"
            else:
                _typed(added, kind)
            if name == _ONEOF:
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [n for n in _MESSAGES if n not in _MAPS]
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{n}")) for n in names}


def _typed(added: Any, kind: str) -> None:
    field = descriptor_pb2.FieldDescriptorProto
    if kind == "DataType":
        added.type, added.type_name = field.TYPE_ENUM, f".{_PACKAGE}.DataType"
    elif kind in _MESSAGES:
        added.type, added.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        added.type = getattr(field, f"TYPE_{kind.upper()}")


def graph_def() -> Any:
    """A new, empty GraphDef."""
    return _classes()["GraphDef"]()
