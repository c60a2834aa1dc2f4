"""Constants of equal content are one array; mapped files are read only as they were, and let go of."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import ModelError
from autofusion.ir.graph import Graph
from autofusion.ir.mapped import map_file, mapped_files, reading, resident
from autofusion.ir.shared import SHARED_BYTES, share, share_constants

COUNT = SHARED_BYTES // 4


def made(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(COUNT).astype(np.float32)


def test_equal_arrays_are_shared_and_others_are_not() -> None:
    first, again = share(made()), made()
    assert share(again) is first
    assert share(again.reshape(2, -1)) is not first and share(again.view(np.int32)) is not first
    other = made()
    other[COUNT // 2 + 3] += 1  # between the samples
    assert share(other) is other
    small = np.ones(4)
    assert share(small) is small and share(np.ones(4)) is not small


def test_zeros_of_either_sign_and_nans_are_compared_by_their_bits() -> None:
    zeros, nans = share(np.zeros(COUNT, np.float32)), share(np.full(COUNT, np.nan, np.float32))
    assert share(-np.zeros(COUNT, np.float32)) is not zeros
    assert share(np.full(COUNT, np.nan, np.float32)) is nans


def test_an_array_that_nobody_uses_is_forgotten() -> None:
    first = share(made(1))
    address = id(first)
    del first
    gc.collect()
    again = made(1)
    assert share(again) is again or id(again) == address


def test_constants_of_bodies_are_shared_but_not_those_of_the_user() -> None:
    graphs = []
    for _ in range(2):
        graph, body = Graph("g"), Graph("body")
        body.add_output(body.node("Identity", [body.constant(made(2))]).outputs[0], "y")
        graph.node("If", [graph.constant(np.array(True))], {"then_branch": body, "else_branch": body})
        graphs.append(graph)
        share_constants(graph)
    first, second = (g.nodes[0].attrs["then_branch"].nodes[0].inputs[0].const for g in graphs)
    assert first is second
    own = graphs[0].copy()
    own.nodes[0].attrs["then_branch"].nodes[0].inputs[0].const = mine = made(2)
    share_constants(own, own)
    assert own.nodes[0].attrs["then_branch"].nodes[0].inputs[0].const is mine


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(made().tobytes())
    return path


def test_a_file_is_mapped_once_and_closed_with_its_last_array(file: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    a, b = map_file(file, 0, 400), map_file(file, 400, 400)
    assert len(mapped_files([a, b, np.zeros(3)])) == 1 and not a.flags.writeable
    assert np.array_equal(np.concatenate([a, b]).view(np.float32), made()[:200])
    (found,) = mapped_files([a])
    found.release()
    assert np.array_equal(a.view(np.float32), made()[:100])
    del a, b, found
    gc.collect()
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_mapping_ends_where_the_file_does(file: Path) -> None:
    with pytest.raises(ValueError, match="found a file of"):
        map_file(file, COUNT * 4 - 4, 8)


def test_what_runs_gets_a_copy_of_mapped_constants(file: Path) -> None:
    array = map_file(file, 0, COUNT * 4).view(np.float32)
    copy = resident(array)
    assert mapped_files([array]) and not mapped_files([copy]) and np.array_equal(array, copy)
    assert resident(array) is copy and resident(copy) is copy


def test_a_file_that_is_overwritten_is_not_read_again(file: Path) -> None:
    array = map_file(file, 0, 400)
    files = mapped_files([array])
    with reading(files):
        pass
    file.rename(file.with_suffix(".old"))
    file.write_bytes(b"another")
    with reading(files):  # the mapped one only has another name
        assert np.array_equal(array.view(np.float32), made()[:100])
    file.with_suffix(".old").write_bytes(b"in place")
    with pytest.raises(ModelError, match="overwritten while a session"), reading(files):
        pass
