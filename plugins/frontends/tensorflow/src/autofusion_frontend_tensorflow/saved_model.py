"""Freezes a SavedModel by TensorFlow's own function: variables become constants, a signature gives inputs and outputs.

The model is read into a session, not as objects: that also takes models of TensorFlow 1, and those whose optimizer or
layers today's Keras no longer knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autofusion.frontends import AutofusionError, ModelError, OptionError, nearest
from autofusion_frontend_tensorflow.files import Source
from autofusion_frontend_tensorflow.protos import graph_def
from autofusion_frontend_tensorflow.runtime import tensorflow
from autofusion_frontend_tensorflow.source import Ref, parse_ref

_PREFERRED = ("serving_default", "serve", "predict")


def frozen(path: Path, signature: str | None = None) -> Source:
    """The frozen graph of the SavedModel in folder ``path``, with the inputs and outputs of one of its signatures:
    the one called ``signature`` (raise OptionError if there is none), or the one for serving.
    """
    graph, inputs, outputs = freeze(path, signature)
    own = graph_def()
    own.ParseFromString(graph.SerializeToString())
    return Source(own, inputs, outputs)


def freeze(path: Path, name: str | None = None) -> tuple[Any, dict[str, Ref], dict[str, Ref]]:
    """As ``frozen``, with TensorFlow's GraphDef."""
    tf = tensorflow(path)
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_from_session_graph

    v1, logger = tf.compat.v1, tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # or it advises at length to use the other interface, which does not take these models
    try:
        with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            meta = v1.saved_model.loader.load(session, _tags(tf, path), str(path))
            signature = _signature(meta.signature_def, path, name)
            inputs = {name: _ref(info, path) for name, info in signature.inputs.items()}
            outputs = {name: _ref(info, path) for name, info in signature.outputs.items()}
            wanted = list(dict.fromkeys(ref[0] for ref in outputs.values()))
            made = convert_variables_to_constants_from_session_graph(session, graph.as_graph_def(), wanted)
    except AutofusionError:
        raise
    except Exception as error:  # TensorFlow raises classes of many kinds
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"TensorFlow cannot load and freeze the SavedModel '{path}': {first}") from error
    finally:
        logger.setLevel(level)
    return made, inputs, outputs


def _tags(tf: Any, path: Path) -> list[str]:
    from tensorflow.python.saved_model import loader_impl

    groups = [list(m.meta_info_def.tags) for m in loader_impl.parse_saved_model(str(path)).meta_graphs]
    serving = [tags for tags in groups if "serve" in tags]
    best = min(serving or groups, key=len, default=None)
    if best is None:
        raise ModelError(f"the SavedModel '{path}' holds no graph")
    return best


def _signature(signatures: Mapping[str, Any], path: Path, wanted: str | None) -> Any:
    usable = {name: s for name, s in signatures.items() if s.outputs and not name.startswith("__saved_model_")}
    found = ", ".join(sorted(usable)) or "none"
    if wanted is not None:
        if wanted not in usable:
            hint = nearest(wanted, usable)
            raise OptionError(f"the SavedModel '{path}' has no signature '{wanted}' (found: {found}){hint}")
        return usable[wanted]
    for name in _PREFERRED:
        if name in usable:
            return usable[name]
    if len(usable) == 1:
        return next(iter(usable.values()))
    raise ModelError(
        f"the SavedModel '{path}' has no signature '{_PREFERRED[0]}' (found: {found}): choose one with --signature "
        "(signature= in Python)"
    )


def _ref(info: Any, path: Path) -> Ref:
    if not info.name:
        raise ModelError(
            f"a signature of the SavedModel '{path}' has a sparse or composite tensor, expected plain ones"
        )
    return parse_ref(info.name)
