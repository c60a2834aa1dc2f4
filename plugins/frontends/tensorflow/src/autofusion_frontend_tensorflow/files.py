"""Reads a GraphDef from a file (binary or text) or from a SavedModel folder, which is frozen first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofusion.frontends import ModelError, OptionError
from autofusion_frontend_tensorflow import sniff
from autofusion_frontend_tensorflow.protos import graph_def
from autofusion_frontend_tensorflow.sniff import Kind
from autofusion_frontend_tensorflow.source import Ref

_LARGEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Source:
    """A GraphDef and, where the model states them, its inputs and outputs by their public names."""

    graph: Any
    inputs: Mapping[str, Ref] = field(default_factory=dict)
    outputs: Mapping[str, Ref] = field(default_factory=dict)


def read(path: Path, signature: str | None = None) -> Source:
    """The model at ``path``; raise ModelError that says what is there instead of one.

    ``signature`` chooses among those of a SavedModel; raise OptionError for any other file.
    """
    if not path.exists():
        raise ModelError(f"there is no model '{path}'")
    kind = sniff.kind_of(path)
    if kind is Kind.FOLDER:
        from autofusion_frontend_tensorflow.saved_model import frozen

        return frozen(path, signature)
    if signature is not None:
        raise OptionError(f"'{path}' is not a SavedModel and has no signatures; leave out the signature '{signature}'")
    if kind is Kind.SAVED_FILE:
        raise ModelError(
            f"'{path}' is {kind.value}: it is not a frozen graph. Give its folder '{path.parent}' instead, with the "
            "'variables' folder beside the file"
        )
    if path.is_dir():
        raise ModelError(f"the folder '{path}' has no '{sniff.SAVED_MODEL}': it is not a SavedModel")
    if kind is Kind.UNKNOWN:
        raise ModelError(f"'{path}' is not a TensorFlow graph but {sniff.describe(path)}")
    return Source(_text(path) if kind is Kind.TEXT else _binary(path))


def _binary(path: Path) -> Any:
    from google.protobuf.message import DecodeError

    if path.stat().st_size > _LARGEST:
        raise ModelError(f"'{path}' is larger than 2 GiB, which no GraphDef may be: is it a SavedModel's data file?")
    graph = graph_def()
    try:
        graph.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise ModelError(
            f"'{path}' is a frozen graph that is truncated or damaged ({error}): copy or export it again"
        ) from error
    return _not_empty(graph, path)


def _text(path: Path) -> Any:
    from google.protobuf import text_format

    graph = graph_def()
    try:
        text_format.Parse(path.read_bytes(), graph, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ModelError(
            f"'{path}' is a graph in text form that is truncated or damaged (line and column: {error})"
        ) from error
    return _not_empty(graph, path)


def _not_empty(graph: Any, path: Path) -> Any:
    if not graph.node:
        raise ModelError(f"'{path}' is a GraphDef without nodes")
    return graph
