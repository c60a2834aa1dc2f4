"""Inputs to try a model with: random where the user gives none."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.errors import InputError, OptionError, nearest
from autofusion.files import replacing
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType, of_array
from autofusion.tools.indices import table_sizes


def parse_shapes(specs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``["x:1,3,48,192"]`` as ``{"x": (1, 3, 48, 192)}``; ``"x:"`` is a scalar. Raise OptionError for anything else."""
    shapes = {}
    for spec in specs:
        name, colon, dims = spec.rpartition(":")
        try:
            shape = tuple(int(d) for d in dims.split(",")) if dims else ()
        except ValueError:
            colon = ""
            shape = ()
        if not colon or not name or any(d < 0 for d in shape):
            raise OptionError(f"shape '{spec}' is not of the form NAME:DIM,DIM,... (for example x:1,3,224,224)")
        shapes[name] = shape
    return shapes


def random_inputs(graph: Graph, shapes: Mapping[str, Sequence[int]], seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded inputs: floats uniform in [0, 1), booleans true, integers over the whole table that they index, or 0 or 1
    if they are not seen to index one. Inputs with defaults are left out.

    Raises InputError if a dim is neither declared nor stated in ``shapes``.
    """
    names = [value.name for value in graph.inputs]
    for name in shapes:
        if name not in names:
            raise InputError(f"the model has no input '{name}'{nearest(name, names)}; it has {', '.join(names)}")
    generator = np.random.default_rng(seed)
    tables = table_sizes(graph)
    made = {}
    for value in graph.inputs:
        if value.default is not None and value.name not in shapes:
            continue
        type_ = value.type
        if not isinstance(type_, TensorType):
            raise InputError(
                f"input '{value.name}' is a {type_}: give its data with --data, random data is for tensors"
            )
        shape = shapes.get(value.name, type_.shape)
        if shape is None or not all(isinstance(d, int) for d in shape):
            raise InputError(
                f"input '{value.name}' has open dims {type_}: state its shape, as in --shape {value.name}:1,3,224,224"
            )
        dims = tuple(int(d) for d in shape)  # type: ignore[arg-type]
        if type_.dtype.kind in "iu":
            rows = min(tables.get(value.name, 2), np.iinfo(type_.dtype).max)
            made[value.name] = np.asarray(generator.integers(0, rows, dims)).astype(type_.dtype)
        elif type_.dtype.kind == "b":
            made[value.name] = np.ones(dims, np.bool_)
        elif type_.dtype.kind == "O":
            made[value.name] = np.full(dims, "text", object)
        else:
            made[value.name] = generator.random(dims, np.float32).astype(type_.dtype)
    return made


def load_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file by name; InputError if it is none."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, AttributeError) as error:
        raise InputError(f"'{path}' is no .npz file with an array for each input: {error}") from error


def save_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name (any name, also ``file``) to exactly ``path``; raise InputError for what is not an array."""
    with replacing(path) as part, zipfile.ZipFile(part, "w") as archive:
        for name, value in arrays.items():
            if not isinstance(value, np.ndarray):
                raise InputError(f"output '{name}' is a {type(value).__name__}: an .npz file holds arrays only")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=True)


def describe(value: Any) -> dict[str, Any]:
    """Type of an output, and minimum, maximum and mean if it is numeric."""
    if not isinstance(value, np.ndarray):
        return {"type": f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else str(value)}
    about: dict[str, Any] = {"type": str(of_array(value))}
    if value.size and value.dtype.kind in "fiub":
        about |= {"min": float(value.min()), "max": float(value.max()), "mean": float(value.astype(np.float64).mean())}
    return about
