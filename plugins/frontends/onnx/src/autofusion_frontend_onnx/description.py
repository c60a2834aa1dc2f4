"""What an ONNX file says about itself: producer, texts, and the signature in its own words."""

from __future__ import annotations

import onnx

from autofusion.ir.description import Declared, Description
from autofusion_frontend_onnx.proto import stated_dim, value_type


def description(source: onnx.ModelProto) -> Description:
    """The description of a parsed model."""
    graph = source.graph
    stored = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    declared = [Declared(info.name, value_type(info.type, stated_dim)) for info in graph.input]
    # Before IR version 4 initialisers had to be listed as inputs, and nobody may override them.
    overridable = stored if source.ir_version >= 4 else set()
    return Description(
        producer=source.producer_name,
        domain=source.domain,
        version=source.model_version if source.HasField("model_version") else None,
        text=source.doc_string,
        graph_name=graph.name,
        graph_text=graph.doc_string,
        properties={entry.key: entry.value for entry in source.metadata_props},
        inputs=tuple(each for each in declared if each.name not in stored),
        defaults=tuple(each for each in declared if each.name in overridable),
        opsets={entry.domain: entry.version for entry in source.opset_import},
        outputs=tuple(Declared(info.name, value_type(info.type, stated_dim)) for info in graph.output),
    )
