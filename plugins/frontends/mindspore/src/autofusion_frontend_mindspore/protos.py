"""The protobuf messages of a MindIR, described here so that reading a file does not need MindSpore.

MindSpore is more than two gigabytes, of which a reader would use the description of the messages. Only the fields that
an importer needs are described, all others are skipped. The messages live in a descriptor pool of their own and never
meet MindSpore's. The syntax is that of proto2: a field that is absent differs from one that is zero.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "autofusion.mindir"

ATTRIBUTE_TYPES = (
    "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128 "
    "BFLOAT16 TENSOR GRAPH TENSORS TUPLE LIST DICT UMONAD IOMONAD NONE PRIMITIVECLOSURE FUNCGRAPHCLOSURE "
    "PARTIALCLOSURE UNIONFUNCCLOSURE CSR_TENSOR COO_TENSOR ROW_TENSOR CLASS_TYPE NAME_SPACE SYMBOL TYPE_NULL "
    "MAP_TENSOR FUNCTOR SCALAR SCALAR_GRAPH_HOLDER"
).split()
"""Names of the kinds of attributes, by number."""

# Message -> its fields: "name number type", with a star for repeated ones. A type in capitals is another message.
# Enumerations are plain numbers here: one that is newer than this description is then not lost.
_MESSAGES = {
    "ModelProto": (
        "ir_version 1 string, producer_name 2 string, producer_version 3 string, domain 4 string, "
        "model_version 5 string, graph 7 GraphProto, functions 8 GraphProto*, little_endian 10 bool, "
        "primitives 12 PrimitiveProto*, mind_ir_version 13 int64"
    ),
    "GraphProto": (
        "node 1 NodeProto*, name 2 string, parameter 3 TensorProto*, input 5 ValueInfoProto*, "
        "output 6 ValueInfoProto*, attribute 8 AttributeProto*"
    ),
    "NodeProto": (
        "input 1 string*, output 2 string*, name 3 string, op_type 4 string, attribute 5 AttributeProto*, "
        "domain 7 string"
    ),
    "PrimitiveProto": (
        "name 1 string, op_type 2 string, attribute 3 AttributeProto*, instance_name 4 string, prim_type 5 int32"
    ),
    "AttributeProto": (
        "name 1 string, f 2 float, i 3 int64, d 4 double, s 5 bytes, t 6 TensorProto, floats 8 float*, "
        "doubles 9 double*, ints 10 int64*, strings 11 bytes*, tensors 12 TensorProto*, ref_attr_name 15 string, "
        "type 16 int32, values 17 AttributeProto*, seq_info 18 SeqInfo"
    ),
    "SeqInfo": "is_dyn_len 1 bool, tuple_elem_item 2 AttributeProto",
    "TensorProto": (
        "dims 1 int64*, data_type 2 int32, name 7 string, raw_data 9 bytes, external_data 12 ExternalData, "
        "ref_key 13 string, min_dims 14 int64*, max_dims 15 int64*, compression_type 16 int32"
    ),
    "ExternalData": "location 1 string, offset 2 int64, length 3 int64",
    "ValueInfoProto": "name 1 string, tensor 2 TensorProto*, denotation 4 string, attr_info 5 AttributeProto",
}


@cache
def _classes() -> dict[str, Any]:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="autofusion/mindir.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            label, number, kind = text.split()
            repeated = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            added = message.field.add(name=label, number=int(number), label=repeated)
            kind = kind.rstrip("*")
            if kind in _MESSAGES:
                added.type, added.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                added.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{n}")) for n in _MESSAGES}


def model_proto() -> Any:
    """A new, empty ModelProto."""
    return _classes()["ModelProto"]()


def attribute_type(number: int) -> str:
    """The name of a kind of attribute; of one that is not known, its number."""
    return ATTRIBUTE_TYPES[number] if 0 <= number < len(ATTRIBUTE_TYPES) else f"number {number}"
