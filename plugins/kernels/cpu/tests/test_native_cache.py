"""Kernels by their structure, and the folders that their objects are kept in."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import os
import time

import numpy as np
import pytest

from autofusion.errors import KernelError, OptionError
from autofusion_kernels_cpu.codegen.isa import AVX2, AVX512, host_isa
from autofusion_kernels_cpu.conv.problem import conv_of
from autofusion_kernels_cpu.matmul import kernel as matmul
from autofusion_kernels_cpu.matmul.problem import product_of
from autofusion_kernels_cpu.matmul.tile import choose_rows
from autofusion_kernels_cpu.native import cache, jit
from autofusion_kernels_cpu.native.cache import ObjectCache, cache_folders
from autofusion_kernels_cpu.native.jit import Jit
from autofusion_kernels_cpu.native.kernel import Kernel, structure_text
from autofusion_kernels_cpu.reduction.problem import problem_of
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.native_support import run_steps

unix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners and modes of files")


def add_kernel(amount, written):
    def emit(f):
        written.append(amount)
        first, last = f.share(f.param["n"])
        with f.vector_loop(first, last) as loop:
            value = f.load(f.buffer["x"], loop.index, mask=loop.mask)
            f.store(value + amount, f.buffer["y"], loop.index, mask=loop.mask)

    return Kernel("add", host_isa(), structure_text(amount), ("x", "y"), ("n",), emit)


# --- kernels by their structure --------------------------------------------------------------------------------------
def test_a_hit_needs_no_text(tmp_path):
    written = []
    first, second = Jit(tmp_path), Jit(tmp_path)
    first.address(add_kernel(1.5, written))
    assert written == [1.5] and first.counters.compiled == 1
    second.address(add_kernel(1.5, written))
    second.address(add_kernel(1.5, written))
    assert written == [1.5] and (second.counters.compiled, second.counters.cached) == (0, 1)
    second.address(add_kernel(2.5, written))
    assert written == [1.5, 2.5] and second.counters.compiled == 1


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTOFUSION_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it gives where nobody knows the user
    cache = ObjectCache(cache_folders())
    cache.write("a", b"code")
    assert cache_folders() == () and cache.read("a") is None


def test_other_sources_make_another_key(tmp_path, monkeypatch):
    written = []
    Jit(tmp_path).address(add_kernel(1.5, written))
    monkeypatch.setattr(jit, "generator_digest", lambda: b"other generators")
    again = Jit(tmp_path)
    again.address(add_kernel(1.5, written))
    assert written == [1.5, 1.5] and again.counters.cached == 0


def test_digest_covers_every_source():
    assert len(jit.generator_digest()) == 32 and jit.generator_digest() is jit.generator_digest()


def test_buffers_and_parameters_go_by_name():
    kernel = add_kernel(3.0, [])
    x, y = np.arange(37, dtype=np.float32), np.zeros(37, np.float32)
    run_steps([kernel.step({"y": y, "x": x}, {"n": 37})])
    assert np.array_equal(y, x + 3)
    with pytest.raises(KernelError, match=r"buffers \['y'\] are missing, \['z'\] are not known"):
        kernel.step({"x": x, "z": y}, {"n": 1})
    with pytest.raises(KernelError, match=r"parameters \['n'\] are missing"):
        kernel.step({"x": x, "y": y}, {})
    with pytest.raises(KernelError, match=r"\['m'\] are not known"):
        kernel.step({"x": x, "y": y}, {"n": 1, "m": 2})


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Shape:
    size: float
    names: tuple[str, ...] = ()


def test_structures_are_told_apart():
    parts = [0, 0.0, -0.0, False, None, "", "0", (0,), ((0,),), Colour.RED, "Colour.RED", np.dtype(np.float32), AVX2]
    parts += [AVX512, Shape(1), Shape(1.0), Shape(1.0, ("a", "b")), Shape(1.0, ("a,b",)), Shape(1.0, ("a','b",)), 1]
    texts = [structure_text(part) for part in parts]
    assert len(set(texts)) == len(texts)
    assert structure_text(Shape(0.1 + 0.2)) != structure_text(Shape(0.3))
    for nameless in (object(), lambda: 0, np.zeros(1), Shape):
        with pytest.raises(TypeError, match="structure cannot hold"):
            structure_text(nameless)


def test_numbers_in_bodies_are_told_apart_to_the_last_bit():
    """Two scalars that print alike in eight digits make other code."""
    numbers = np.arange(0x3DCCCCCD, 0x3DCCD000, dtype=np.int32).view(np.float32)
    one, other = next((a, b) for a, b in itertools.pairwise(numbers) if repr(np.array(a)) == repr(np.array(b)))
    assert repr(np.array(one)) == repr(np.array(other))

    def norm(number):
        node = fused("layer_norm", lambda b, x: b("RMSNormalization", x, number), [np.zeros((4, 8), np.float32)])
        return problem_of(node).signature()

    def scaled(number):
        arrays = [np.zeros((1, 4, 5, 5), np.float32), np.ones((4, 4, 1, 1), np.float32)]
        return conv_of(fused("conv", lambda b, x, w: b("Mul", b("Conv", x, w), number), arrays, (1,))).epilogue.key

    def added(number):
        arrays = [np.zeros((3, 4), np.float32), np.ones((4, 5), np.float32)]
        product = product_of(fused("matmul", lambda b, x, w: b("Gemm", x, w, number), arrays, (1,)))
        epilogue = matmul.Epilogue(product.region, (), product.anchor.output, c=product.c)
        tile = matmul.Structure(choose_rows(host_isa(), 3).tile, matmul.PACKED)
        return matmul.build(tile, epilogue, host_isa()).structure

    for key in (norm, scaled, added):
        assert key(one) == key(one.copy()) and key(one) != key(other), key.__name__


# --- folders ----------------------------------------------------------------------------------------------------------
def objects(folder):
    return sorted(path.name for path in folder.glob("*.o"))


def test_further_folders_are_read_only(tmp_path, monkeypatch):
    image, own = tmp_path / "image", tmp_path / "own"
    Jit(image / "kernels").address(add_kernel(4.5, []))
    before = objects(image / "kernels")
    monkeypatch.setenv("AUTOFUSION_CACHE", os.pathsep.join([str(own), str(image)]))
    assert cache.cache_folders() == (own / "kernels", image / "kernels")
    compiler, written = Jit(), []
    compiler.address(add_kernel(4.5, written))
    assert written == [] and compiler.counters.cached == 1
    compiler.address(add_kernel(5.5, written))
    assert objects(image / "kernels") == before and len(objects(own / "kernels")) == 1


@unix
def test_new_folders_and_files_are_this_user_s_alone(tmp_path):
    folder = tmp_path / "kernels"
    ObjectCache([folder]).write("a", b"code")
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / "a.o").stat().st_mode & 0o077 == 0


@unix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_folder_that_others_may_write_to_is_refused(tmp_path, mode):
    folder = tmp_path / "kernels"
    ObjectCache([folder]).write("a", b"code")
    folder.chmod(mode)
    kept = ObjectCache([folder])
    with pytest.warns(RuntimeWarning, match=r"written to by others.*AUTOFUSION_CACHE"):
        assert kept.read("a") is None
    kept.write("b", b"code")  # the warning comes once
    assert objects(folder) == ["a.o"]
    compiler = Jit(folder)
    with pytest.warns(RuntimeWarning):
        compiler.address(add_kernel(6.5, []))
    assert compiler.counters.compiled == 1 and objects(folder) == ["a.o"]
    folder.chmod(0o700)
    assert ObjectCache([folder]).read("a") == b"code"


@unix
@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_file_that_others_may_write_to_is_refused(tmp_path, mode):
    kept = ObjectCache([tmp_path])
    kept.write("a", b"code")
    (tmp_path / "a.o").chmod(mode)
    assert kept.read("a") is None


@unix
def test_files_and_folders_of_others_are_refused(tmp_path, monkeypatch):
    kept = ObjectCache([tmp_path])
    kept.write("a", b"code")
    assert kept.read("a") == b"code"
    owner = tmp_path.stat().st_uid
    if owner:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    else:
        os.chown(tmp_path / "a.o", 12345, 12345)
    assert kept.read("a") is None
    if not owner:
        os.chown(tmp_path, 12345, 12345)
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        assert ObjectCache([tmp_path]).read("a") is None


@unix
def test_links_are_not_followed(tmp_path):
    kept = ObjectCache([tmp_path / "own"])
    kept.write("a", b"code")
    (tmp_path / "own" / "a.o").rename(tmp_path / "elsewhere.o")
    (tmp_path / "own" / "a.o").symlink_to(tmp_path / "elsewhere.o")
    assert kept.read("a") is None


def test_what_was_used_least_recently_goes_first(tmp_path):
    code, old = b"x" * 1000, time.time() - 1e6
    kept = ObjectCache([tmp_path], limit=10_000)
    for number in range(8):
        kept.write(f"{number}", code)
        os.utime(tmp_path / f"{number}.o", (old + number, old + number))
    assert kept.read("0") == code  # used: it is now the newest
    (tmp_path / "unfinished.tmp").write_bytes(code)
    os.utime(tmp_path / "unfinished.tmp", (old, old))
    for number in range(8, 12):
        kept.write(f"{number}", code)
    left = objects(tmp_path)
    assert {"0.o", "11.o"} <= set(left) and "1.o" not in left
    assert sum(path.stat().st_size for path in tmp_path.glob("*.o")) <= 10_000
    assert not (tmp_path / "unfinished.tmp").exists()
    # Whatever the limit, a kernel that was just compiled can be kept.
    ObjectCache([tmp_path], limit=10).write("large", code)
    assert objects(tmp_path) == ["large.o"]


def test_limit_is_a_number_of_bytes(monkeypatch):
    monkeypatch.setenv("AUTOFUSION_CACHE_BYTES", "1000")
    assert cache.cache_limit() == 1000
    monkeypatch.setenv("AUTOFUSION_CACHE_BYTES", "lots")
    with pytest.raises(OptionError, match=r"AUTOFUSION_CACHE_BYTES.*'lots'"):
        cache.cache_limit()


@unix
def test_what_is_kept_is_told_shared_and_removed(tmp_path):
    first, second = tmp_path / "own" / "kernels", tmp_path / "image" / "kernels"
    ObjectCache([second]).write("b", b"other")
    os.chmod(second, 0o777)
    kept = ObjectCache([first, second])
    assert [(f.path, f.kernels, f.is_first) for f in kept.usage()] == [(first, 0, True), (second, 1, False)]
    kept.write("a", b"code")
    own, image = kept.usage()
    assert (own.kernels, own.nbytes, own.problem) == (1, (first / "a.o").stat().st_size, "")
    assert "can be written to by others" in image.problem
    kept.share()
    modes = [path.stat().st_mode & 0o777 for path in (first, first.parent, first / "a.o")]
    assert modes[0] == 0o755 and modes[1] & 0o755 == 0o755 and modes[2] == 0o644 and kept.read("a") == b"code"
    kept.clean()
    assert objects(first) == [] and objects(second) == ["b.o"]
    kept.clean()  # also where there is nothing
    ObjectCache([tmp_path / "missing"]).clean()
