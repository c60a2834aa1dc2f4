"""The model run by TensorFlow itself, as it is: the reference that results are compared with.

Its graph optimisations are off, since they fuse and fold too (and a few of them change results).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.frontends import LoadOptions, ModelError, Reference
from autofusion_frontend_tensorflow import ends, files, sniff
from autofusion_frontend_tensorflow.registry import TABLE
from autofusion_frontend_tensorflow.runtime import tensorflow
from autofusion_frontend_tensorflow.source import Ref, main_body, parse_ref


def reference(path: Path, options: LoadOptions) -> Reference:
    """A function from inputs by name to outputs by name; raise PluginError if TensorFlow is not installed."""
    tf = tensorflow(path)
    if sniff.kind_of(path) is sniff.Kind.FOLDER:
        from autofusion_frontend_tensorflow.saved_model import freeze

        proto, inputs, outputs = freeze(path, options.signature)
    else:
        own = files.read(path, options.signature).graph
        proto, inputs = tf.compat.v1.GraphDef.FromString(own.SerializeToString()), {}
        names = TABLE.extended(options.converters).output_names
        outputs = {} if options.outputs else {ends.name_of(ref): ref for ref in ends.unread(main_body(own), names)}
    if options.outputs:
        outputs = {name: outputs.get(name) or parse_ref(name) for name in options.outputs}
    return _reference(tf, proto, inputs, outputs, path)


def _reference(tf: Any, proto: Any, inputs: Mapping[str, Ref], outputs: Mapping[str, Ref], path: Path) -> Reference:
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.graph_util.import_graph_def(proto, name="")
        fetches = {name: graph.get_tensor_by_name(_tensor(ref)) for name, ref in outputs.items()}
    except (ValueError, KeyError) as error:
        raise ModelError(f"TensorFlow does not take '{path}': {error}") from error
    session = tf.compat.v1.Session(graph=graph, config=plain_config(tf))

    def run(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            feeds = {_tensor(inputs.get(name) or parse_ref(name)): value for name, value in given.items()}
            results = session.run(fetches, feeds)
        except Exception as error:  # TensorFlow raises classes of many kinds
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelError(f"'{path}' cannot be run by TensorFlow: {first}") from error
        return {name: np.asarray(value) for name, value in results.items()}

    return run


def plain_config(tf: Any) -> Any:
    """A session that runs the graph as it is."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def _tensor(ref: Ref) -> str:
    return f"{ref[0]}:{ref[1]}"
