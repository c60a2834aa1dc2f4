"""Inputs to try a model with: random where the user gives none."""

from __future__ import annotations

import math
import runpy
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.errors import InputError, OptionError, nearest
from autofusion.files import replacing
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType, of_array
from autofusion.runtime.feeds import missing_shapes
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


def model_and_shapes(spec: str) -> tuple[Path, dict[str, tuple[int, ...]]]:
    """``det.onnx@x:1,3,640,640@y:2`` as a path and shapes; the path itself may have an ``@``, if it exists."""
    at = len(spec)
    while not Path(spec[:at]).exists() and "@" in spec[:at]:
        at = spec.rindex("@", 0, at)
    if not Path(spec[:at]).exists():
        at = spec.find("@") if "@" in spec else len(spec)
    return Path(spec[:at]), parse_shapes([part for part in spec[at:].split("@") if part])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What made-up inputs are to be: ``values`` by name (a number for all elements, or one for each), or ``ranges``
    (low, high) to draw from: floats up to high, integers up to and with it.
    """

    values: Mapping[str, Sequence[float | bool]] = field(default_factory=dict)
    ranges: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Wanted:
        """From plain data, as ``dataclasses.asdict`` makes it."""
        return cls(**data)

    @property
    def names(self) -> set[str]:
        """The inputs that something is said of."""
        return {*self.values, *self.ranges}


def parse_wanted(values: Sequence[str], ranges: Sequence[str]) -> Wanted:
    """``["sr=16000", "ids=1,2,3"]`` and ``["x:-1,1"]``. Raise OptionError for anything else."""
    found: dict[str, list[float | bool]] = {}
    for text in values:
        name, equals, numbers = text.rpartition("=")
        parsed = [_number(part) for part in numbers.split(",")]
        if not equals or not name or None in parsed:
            raise OptionError(f"value '{text}' is not of the form NAME=NUMBER[,NUMBER...] (for example sr=16000)")
        found[name] = [number for number in parsed if number is not None]
    drawn: dict[str, list[float]] = {}
    for text in ranges:
        name, colon, numbers = text.rpartition(":")
        ends = [_number(part) for part in numbers.split(",")]
        low, high = (*ends, None, None)[:2]
        if not colon or not name or len(ends) != 2 or low is None or high is None or not low <= high:
            raise OptionError(f"range '{text}' is not of the form NAME:LOW,HIGH (for example ids:0,30521)")
        drawn[name] = [low, high]
    return Wanted(found, drawn)


def _number(text: str) -> float | bool | None:
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return None


def random_inputs(
    graph: Graph, shapes: Mapping[str, Sequence[int]], seed: int = 0, wanted: Wanted | None = None
) -> dict[str, np.ndarray]:
    """Seeded inputs: floats uniform in [0, 1), booleans true, integers over the whole table that they index, or 0 or 1
    if they are not seen to index one; or what is ``wanted``. Inputs with defaults are left out if nothing is said.

    Raises InputError if dims are neither declared nor stated in ``shapes``: it names all inputs that have such.
    """
    names = [value.name for value in graph.inputs]
    wanted = wanted or Wanted()
    for name in (*shapes, *wanted.names):
        if name not in names:
            raise InputError(f"the model has no input '{name}'{nearest(name, names)}; it has {', '.join(names)}")
    generator = np.random.default_rng(seed)
    tables = table_sizes(graph)
    made = {}
    missing = []
    for value in graph.inputs:
        if value.default is not None and value.name not in shapes and value.name not in wanted.names:
            continue
        type_ = value.type
        if not isinstance(type_, TensorType):
            raise InputError(
                f"input '{value.name}' is a {type_}: give its data with --data, random data is for tensors"
            )
        shape = shapes.get(value.name, type_.shape)
        numbers = wanted.values.get(value.name)
        if numbers is not None and len(numbers) > 1 and value.name not in shapes and len(type_.shape or (0,)) == 1:
            shape = (len(numbers),)
        if shape is None or not all(isinstance(d, int) for d in shape):
            missing.append(value)
            continue
        dims = tuple(int(d) for d in shape)  # type: ignore[arg-type]
        if numbers is not None:
            made[value.name] = _stated(value.name, numbers, type_.dtype, dims)
        elif value.name in wanted.ranges:
            made[value.name] = _drawn(value.name, wanted.ranges[value.name], type_.dtype, dims, generator)
        elif type_.dtype.kind in "iu":
            rows = min(tables.get(value.name, 2), np.iinfo(type_.dtype).max)
            made[value.name] = np.asarray(generator.integers(0, rows, dims)).astype(type_.dtype)
        elif type_.dtype.kind == "b":
            made[value.name] = np.ones(dims, np.bool_)
        elif type_.dtype.kind == "O":
            made[value.name] = np.full(dims, "text", object)
        else:
            made[value.name] = generator.random(dims, np.float32).astype(type_.dtype)
    if missing:
        raise missing_shapes(missing)
    return made


def _stated(name: str, numbers: Sequence[float | bool], dtype: np.dtype, dims: tuple[int, ...]) -> np.ndarray:
    if len(numbers) not in (1, math.prod(dims)):
        raise InputError(
            f"input '{name}' has {math.prod(dims)} elements, and --value states {len(numbers)}: state one, or all"
        )
    given = np.asarray(numbers)
    array = np.asarray(given.astype(dtype))
    if dtype.kind in "iub" and not np.array_equal(array.astype(given.dtype), given):
        raise InputError(f"input '{name}' is of {dtype}, which cannot hold the value {given[array != given].tolist()}")
    return np.full(dims, array[0]) if len(numbers) == 1 else array.reshape(dims)


def _drawn(
    name: str, ends: Sequence[float], dtype: np.dtype, dims: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    low, high = ends
    if dtype.kind in "iu":
        known = np.iinfo(dtype)
        if not (float(low).is_integer() and float(high).is_integer() and known.min <= low and high <= known.max):
            raise InputError(f"input '{name}' is of {dtype}: expected a range of such integers, found {low},{high}")
        return np.asarray(generator.integers(int(low), int(high), dims, endpoint=True)).astype(dtype)
    if dtype.kind not in "fV":
        raise InputError(f"input '{name}' is of {dtype}: a range is for numbers; state its value")
    return np.asarray(generator.uniform(low, high, dims)).astype(dtype)


def load_data(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, or the first that a data script has."""
    return load_script(path)[0] if path.suffix == ".py" else load_npz(path)


def load_script(path: Path) -> list[dict[str, np.ndarray]]:
    """What the function ``load_data`` of a Python file returns or yields: mappings from input name to array."""
    try:
        function = runpy.run_path(str(path)).get("load_data")
    except OSError as error:
        raise InputError(f"data script '{path}' cannot be read: {error.strerror}") from error
    if not callable(function):
        raise InputError(f"data script '{path}' has no function 'load_data' that returns or yields inputs by name")
    given = function()
    found = [given] if isinstance(given, Mapping) else list(given)
    for item in found:
        if not isinstance(item, Mapping):
            raise InputError(f"'load_data' of '{path}' gave a {type(item).__name__}, expected arrays by input name")
    if not found:
        raise InputError(f"'load_data' of '{path}' gave no inputs")
    return [{str(name): np.asarray(array) for name, array in item.items()} for item in found]


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
