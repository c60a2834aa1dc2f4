"""A failing case as files: a small model as IR text with its constants, as ONNX where that can be written, and inputs.

The text is the truth; the ONNX file is for other tools to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.errors import AutofusionError, InputError
from autofusion.files import replacing, write_text
from autofusion.frontends.contract import Exporter
from autofusion.ir.dtypes import dtype_from_name, dtype_name
from autofusion.ir.graph import Graph
from autofusion.ir.literals import FULL
from autofusion.ir.text import digest, from_text, to_text
from autofusion.plugins.registry import default_registry

MODEL, CONSTANTS, INPUTS, ONNX = "model.txt", "constants.npz", "inputs.npz", "model.onnx"


def write_case(folder: Path, graph: Graph, inputs: Mapping[str, np.ndarray]) -> None:
    """Write the model and its inputs into ``folder``, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / MODEL, to_text(graph, with_names=True))
    _save(folder / CONSTANTS, (_packed(array) for array in _large(graph)))
    _save(folder / INPUTS, (_packed(array, name) for name, array in inputs.items()))
    for frontend in default_registry().frontends:
        if frontend.name == "onnx" and isinstance(frontend, Exporter):
            try:
                frontend.export(graph, folder / ONNX, inline=True)
            except AutofusionError:  # an operator that ONNX does not have: the text has it
                (folder / ONNX).unlink(missing_ok=True)


def read_case(folder: Path) -> tuple[Graph, dict[str, np.ndarray]]:
    """The model and its inputs; InputError if the folder has none."""
    try:
        constants = {key: array for key, array in _unpacked(folder / CONSTANTS)}
        inputs = dict(_unpacked(folder / INPUTS))
        return from_text((folder / MODEL).read_text("utf-8"), constants), inputs
    except OSError as error:
        raise InputError(f"'{folder}' is not a case: {error}") from error


def _large(graph: Graph) -> Iterator[np.ndarray]:
    """Every array that the text form only gives the digest of."""
    arrays = [v.const for v in graph.constants()] + [v.default for v in graph.inputs]
    for node in graph.nodes:
        for value in node.attrs.values():
            if isinstance(value, Graph):
                yield from _large(value)
            elif isinstance(value, np.ndarray):
                arrays.append(value)
    yield from (array for array in arrays if array is not None and array.size > FULL)


def _save(path: Path, entries: Iterable[tuple[str, np.ndarray]]) -> None:
    arrays: dict[str, Any] = dict(entries)
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _packed(array: np.ndarray, name: str = "") -> tuple[str, np.ndarray]:
    """A key that says name (or digest), type and shape, and the bytes: types that NumPy does not know survive too."""
    shape = ",".join(map(str, array.shape))
    key = f"{name or digest(array)}|{dtype_name(array.dtype)}|{shape}"
    if array.dtype.kind in "OUS":
        return key, array.astype(str).reshape(-1)
    return key, np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _unpacked(path: Path) -> Iterator[tuple[str, Any]]:
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            name, kind, dims = key.rsplit("|", 2)
            shape = tuple(int(d) for d in dims.split(",") if d)
            raw = archive[key]
            if kind == "str":
                yield name, raw.astype(object).reshape(shape)
            else:
                yield name, raw.view(dtype_from_name(kind)).reshape(shape)
