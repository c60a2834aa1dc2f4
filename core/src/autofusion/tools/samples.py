"""Samples to try a model with: a data set on disk, or inputs made up to cover more than the usual case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from autofusion.errors import InputError
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
from autofusion.tools.indices import table_sizes
from autofusion.tools.inputs import Wanted, load_npz, load_script, random_inputs

LARGE = "large"
NOT_A_NUMBER = "not a number"
WIDE = "wide integers"
WIDEST = 8
"""Wide integers are smaller than this: they may be sizes of what the model makes."""
LARGEST = 100.0
"""Standard deviation of large numbers: e to the power of them is beyond single precision."""


@dataclass(frozen=True, slots=True)
class Sample:
    """``inputs`` by name, and what a data set says about them; ``optional`` samples may not suit the model.

    ``clean`` is False for made-up inputs that are not finite.
    """

    name: str
    inputs: Mapping[str, np.ndarray]
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    optional: bool = False
    clean: bool = True

    @property
    def shapes(self) -> dict[str, list[int]]:
        """Shapes of the inputs."""
        return {name: list(array.shape) for name, array in self.inputs.items()}


@dataclass(frozen=True, slots=True)
class DataSet:
    """Samples as files: ``.npz`` with an array for each input; other arrays are targets (``label``, ``text``...).

    ``charset`` are the lines of a ``charset.txt`` beside them.
    """

    files: tuple[Path, ...]
    names: tuple[str, ...]
    charset: tuple[str, ...] = ()
    made: tuple[Mapping[str, np.ndarray], ...] = ()
    """What a data script gave, in place of files."""

    def __len__(self) -> int:
        return len(self.made or self.files)

    def sample(self, index: int) -> Sample:
        """Read one sample; InputError if an input is missing."""
        path = Path(f"{self.files[0].stem}-{index}") if self.made else self.files[index]
        arrays = self.made[index] if self.made else load_npz(path)
        inputs = {name: arrays[name] for name in self.names if name in arrays}
        if not inputs:
            have = ", ".join(f"'{n}'" for n in arrays)
            raise InputError(f"'{path}' has none of the inputs {', '.join(map(repr, self.names))}; found {have}")
        return Sample(path.stem, inputs, {n: a for n, a in arrays.items() if n not in inputs})


def open_data(path: Path, graph: Graph) -> DataSet:
    """The data set at ``path`` (a folder of ``.npz`` files, or one such file); InputError if there is none."""
    names = tuple(v.name for v in graph.inputs)
    if path.is_dir():
        files = tuple(sorted(path.glob("*.npz")))
        if not files:
            raise InputError(f"the folder '{path}' has no .npz files")
        charset = path / "charset.txt"
        lines = charset.read_text("utf-8").split("\n") if charset.exists() else []
        return DataSet(files, names, tuple(lines[:-1] if lines and not lines[-1] else lines))
    if not path.exists():
        raise InputError(f"there is no data at '{path}': expected an .npz file, a folder of such files or a script")
    if path.suffix == ".py":
        return DataSet((path,), names, made=tuple(load_script(path)))
    return DataSet((path,), names)


def made_up(
    graph: Graph, shapes: Mapping[str, Sequence[int]], seed: int = 0, wanted: Wanted | None = None
) -> list[Sample]:
    """Made-up samples: numbers in [0, 1), normal ones (half of them negative), and what a model may not take; in all of
    them inputs of which something is ``wanted`` are that.

    Those are optional: sizes of the other parity (open dims beyond the first), a batch of two and of three (if the
    first dim of an input is open, and 1), integers up to WIDEST where they are not indices of a known table, large
    numbers with zeros of both signs among them, and NaN here and there.
    """
    usual = random_inputs(graph, shapes, seed, wanted)
    again = random_inputs(graph, shapes, seed + 1, wanted)
    samples = [Sample("uniform", usual), Sample("normal", _normal(again, seed + 1))]
    for name, changed in (
        ("other sizes", _other_parity(graph, shapes)),
        ("batch of two", _batch(graph, shapes, 2)),
        ("batch of three", _batch(graph, shapes, 3)),
    ):
        if changed != {name: tuple(shape) for name, shape in shapes.items()}:
            inputs = _normal(random_inputs(graph, changed, seed + 2, wanted), seed + 2)
            samples.append(Sample(name, inputs, optional=True))
    tables = table_sizes(graph)
    others = [n for n, array in usual.items() if array.dtype.kind in "iu" and n not in tables]
    if others:
        generator = np.random.default_rng(seed + 5)
        wide = {n: np.asarray(generator.integers(0, WIDEST, usual[n].shape)).astype(usual[n].dtype) for n in others}
        samples.append(Sample(WIDE, usual | wide, optional=True))
    if any(_is_float(array) for array in usual.values()):
        samples.append(Sample(LARGE, _large(usual, seed + 3), optional=True))
        samples.append(Sample(NOT_A_NUMBER, _with_nan(usual, seed + 4), optional=True, clean=False))
    if wanted is None or not wanted.names:
        return samples
    kept = []
    for number, sample in enumerate(samples):
        own = random_inputs(graph, sample.shapes, seed + number, wanted)
        kept.append(replace(sample, inputs={**sample.inputs, **{n: own[n] for n in wanted.names}}))
    return kept


def disturbed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Other inputs of the same shapes: floats in reverse order. What a run after them gives must not depend on them."""
    return {
        name: np.ascontiguousarray(value.reshape(-1)[::-1]).reshape(value.shape)
        if isinstance(value, np.ndarray) and _is_float(value)
        else value
        for name, value in inputs.items()
    }


def overflows(sample: Sample, outputs: Mapping[str, Any]) -> bool:
    """True for a sample of large numbers if the reference itself gets NaN or infinity of them: nothing to compare."""
    if sample.name not in (LARGE, WIDE):
        return False
    floats = (a for a in outputs.values() if isinstance(a, np.ndarray) and _is_float(a))
    return not all(np.isfinite(array.astype(np.float64)).all() for array in floats)


def _normal(inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        n: np.asarray(generator.standard_normal(a.shape)).astype(a.dtype) if _is_float(a) else a
        for n, a in inputs.items()
    }


def _large(inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Normal numbers times LARGEST, every eighth of them zero, of either sign."""
    generator = np.random.default_rng(seed)
    made = dict(inputs)
    for name, array in inputs.items():
        if _is_float(array):
            large = LARGEST * generator.standard_normal(array.shape)
            chosen = generator.random(array.shape)
            made[name] = np.where(chosen < 0.875, large, np.where(chosen < 0.9375, 0.0, -0.0)).astype(array.dtype)
    return made


def _with_nan(inputs: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Normal numbers, one in a hundred of them (one at least) NaN."""
    made, generator = _normal(inputs, seed), np.random.default_rng(seed)
    for array in made.values():
        if _is_float(array) and array.size:
            array.reshape(-1)[generator.integers(0, array.size, 1 + array.size // 100)] = np.nan
    return made


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or (array.dtype.kind == "V" and "float" in array.dtype.name)


def _batch(graph: Graph, shapes: Mapping[str, Sequence[int]], size: int) -> dict[str, tuple[int, ...]]:
    """The shapes with ``size`` where the first dim of an input is open and 1, and wherever its symbol is."""
    declared = {v.name: v.type.shape or () for v in graph.inputs if isinstance(v.type, TensorType)}
    single = {n: dims[0] for n, dims in declared.items() if n in shapes and dims and shapes[n][0] == 1}
    symbols = {dim for dim in single.values() if isinstance(dim, str)}
    unnamed = [n for n, dim in single.items() if dim is None]
    made = {}
    for name, shape in shapes.items():
        wanted = declared.get(name, ())
        dims = [size if want in symbols and d == 1 else int(d) for want, d in zip(wanted, shape, strict=False)]
        made[name] = (size, *dims[1:]) if name in unnamed else tuple(dims) if wanted else tuple(shape)
    return made


def _other_parity(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The shapes with open dims, the first of each input apart, one smaller (or larger, if they are 1)."""
    symbols: dict[str, int] = {}
    made: dict[str, tuple[int, ...]] = {}
    for value in graph.inputs:
        if value.name not in shapes:
            continue
        declared: Sequence[Any] = value.type.shape or () if isinstance(value.type, TensorType) else ()
        dims = [int(d) for d in shapes[value.name]]
        for axis, want in enumerate(declared):
            if isinstance(want, int) or axis == 0:
                continue
            changed = dims[axis] - 1 if dims[axis] > 1 else 2
            dims[axis] = symbols.setdefault(want, changed) if isinstance(want, str) else changed
        made[value.name] = tuple(dims)
    return made
