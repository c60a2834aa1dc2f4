"""The compiler's cache and the builder's IR."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import KernelError
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import NEON, UnsupportedIsaError, host_isa
from autofusion_kernels_cpu.codegen.values import F32, F64, I32, I64
from autofusion_kernels_cpu.native.jit import Jit, jit
from autofusion_kernels_cpu.native.program import NativeStep, Ref
from plugins.kernels.cpu.tests.native_support import RUNNABLE, isa_named, run_steps

NO_PARAMS = np.zeros(0, np.int64)


def scale_module(isa, name="scale"):
    module = Module(isa)
    with module.kernel(name, buffers=["x", "y"], params=["n", "factor"]) as f:
        factor = f.splat(f.float_bits(f.param["factor"]), f.lanes)
        first, last = f.share(f.param["n"])
        with f.vector_loop(first, last) as loop:
            v = f.load(f.buffer["x"], loop.index, mask=loop.mask)
            f.store(v * factor, f.buffer["y"], loop.index, mask=loop.mask)
    return module


def scale(address, x, factor=3.0, threads=1):
    y = np.full(len(x) + 1, 7.0, np.float32)
    params = np.array([len(x), int(np.float32(factor).view(np.int32))], np.int64)
    run_steps([NativeStep(address, (Ref(x), Ref(y)), params)], threads)
    assert y[-1] == 7.0
    return y[:-1]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 37, 1000])
def test_vector_loop_covers_exactly(isa, threads, n):
    x = np.arange(n, dtype=np.float32)
    assert np.array_equal(scale(jit().kernel(scale_module(isa_named(isa))), x, threads=threads), x * 3)


def test_second_process_loads_instead_of_compiling(tmp_path):
    isa = host_isa()
    first, second = Jit(tmp_path), Jit(tmp_path)
    x = np.arange(5, dtype=np.float32)
    for compiler, compiled, cached in ((first, 1, 0), (second, 0, 1)):
        assert np.array_equal(scale(compiler.kernel(scale_module(isa)), x), x * 3)
        assert (compiler.counters.compiled, compiler.counters.cached) == (compiled, cached)


def test_equal_modules_are_loaded_once(tmp_path):
    compiler = Jit(tmp_path)
    assert compiler.kernel(scale_module(host_isa())) == compiler.kernel(scale_module(host_isa()))
    assert compiler.counters.compiled == 1
    assert compiler.kernel(scale_module(host_isa(), "other")) != compiler.kernel(scale_module(host_isa()))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_damaged_cache_file_is_compiled_again(tmp_path, damage):
    Jit(tmp_path).kernel(scale_module(host_isa()))
    (path,) = tmp_path.glob("*.o")
    path.write_bytes(damage(path.read_bytes()))
    compiler = Jit(tmp_path)
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(scale(compiler.kernel(scale_module(host_isa())), x), x * 3)
    assert compiler.counters.compiled == 1
    again = Jit(tmp_path)
    again.kernel(scale_module(host_isa()))
    assert again.counters.cached == 1


def test_cache_folder_that_cannot_exist(tmp_path):
    (tmp_path / "file").write_text("")
    compiler = Jit(tmp_path / "file" / "folder")
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(scale(compiler.kernel(scale_module(host_isa())), x), x * 3)


def test_cache_folder_follows_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOFUSION_CACHE", str(tmp_path))
    Jit().kernel(scale_module(host_isa()))
    assert len(list((Path(tmp_path) / "kernels").glob("*.o"))) == 1


def test_threads_may_compile_together(tmp_path):
    compiler, found = Jit(tmp_path), []
    modules = [scale_module(host_isa(), f"k{i % 3}") for i in range(12)]
    workers = [threading.Thread(target=lambda m=m: found.append(compiler.kernel(m))) for m in modules]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 12 and len(set(found)) == 3 and compiler.counters.compiled == 3


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="needs the mappings of Linux")
def test_loads_where_memory_is_scattered():
    command = [sys.executable, "-m", "plugins.kernels.cpu.tests.scattered_memory"]
    root = Path(__file__).parents[4]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "loaded\n", done.stderr


def test_wrong_ir_names_the_kernel(tmp_path):
    module = Module(host_isa())
    with module.kernel("crooked", buffers=[]) as f:
        f.do("nonsense")
    with pytest.raises(KernelError, match="crooked"):
        Jit(tmp_path).kernel(module)


def test_unknown_isa():
    with pytest.raises(UnsupportedIsaError, match="avx9"):
        host_isa("avx9")


def test_assembles_for_aarch64():
    code = jit().object_code(scale_module(NEON))
    # ELF, machine 183 = AArch64.
    assert code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == 183


def evaluate(isa, build, x, dtype=np.float32):
    """Run `build(f, value)` on one vector and return its lanes."""
    module = Module(isa)
    with module.kernel("evaluate", buffers=["x", "y"]) as f:
        result = build(f, f.load(f.buffer["x"]))
        f.store(result, f.buffer["y"])
    full = np.resize(np.asarray(x, np.float32), isa.lanes)
    y = np.zeros(isa.lanes, dtype)
    run_steps([NativeStep(jit().kernel(module), (Ref(full), Ref(y)), NO_PARAMS)])
    return full, y


@pytest.mark.parametrize("isa", RUNNABLE)
def test_max_and_min_propagate_nan(isa):
    isa = isa_named(isa)
    other = np.array([1, np.nan, -1, np.nan], np.float32)
    x = np.array([0, 1, np.nan, np.nan], np.float32)

    def swapped(f, v):
        return f.const_vector([float(a) for a in np.resize(other, f.lanes)], F32)

    for method, want in (("max", np.maximum), ("min", np.minimum)):
        full, y = evaluate(isa, lambda f, v, m=method: getattr(f, m)(v, swapped(f, v)), x)
        assert np.array_equal(y, want(full, np.resize(other, isa.lanes)), equal_nan=True)
        for order in (lambda f, v, m=method: getattr(f, m)(v, 0.5), lambda f, v, m=method: getattr(f, m)(0.5, v)):
            full, y = evaluate(isa, order, x)
            assert np.array_equal(y, want(full, np.float32(0.5)), equal_nan=True)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_rounding_and_conversions(isa):
    isa = isa_named(isa)
    x = np.array([0.5, 1.5, -2.5, 1e20, -1e20, np.nan, -0.5, 3.7], np.float32)
    cases = [
        (lambda f, v: f.rint(v), np.rint, np.float32),
        (lambda f, v: f.floor(v), np.floor, np.float32),
        (lambda f, v: f.ceil(v), np.ceil, np.float32),
        (lambda f, v: f.trunc(v), np.trunc, np.float32),
        (lambda f, v: f.abs(v), np.abs, np.float32),
        (lambda f, v: 2.0 * v - 1.0, lambda a: 2 * a - 1, np.float32),
        (lambda f, v: f.convert(v, F64), lambda a: a.astype(np.float64), np.float64),
    ]
    for build, want, dtype in cases:
        full, y = evaluate(isa, build, x, dtype)
        assert np.array_equal(y, want(full), equal_nan=True)
    full, y = evaluate(isa, lambda f, v: f.convert(v, I32), x, np.int32)
    limited = np.clip(np.nan_to_num(full.astype(np.float64)), -(2**31), 2**31 - 1).astype(np.int64)
    assert np.array_equal(y, limited)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_reductions_and_transpose(isa):
    isa = isa_named(isa)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((isa.lanes, isa.lanes)).astype(np.float32)
    y, s = np.zeros_like(x), np.zeros(8, np.float32)
    module = Module(isa)
    with module.kernel("matrix", buffers=["x", "y", "s"]) as f:
        rows = [f.load(f.buffer["x"], i * f.lanes) for i in range(f.lanes)]
        for i, row in enumerate(f.transpose(rows)):
            f.store(row, f.buffer["y"], i * f.lanes)
        for i, kind in enumerate(("add", "mul", "max", "min")):
            f.store(f.reduce(kind, rows[0]), f.buffer["s"], i)
    run_steps([NativeStep(jit().kernel(module), (Ref(x), Ref(y), Ref(s)), NO_PARAMS)])
    assert np.array_equal(y, x.T)
    wide = x[0].astype(np.float64)
    assert np.allclose(s[:4], [wide.sum(), wide.prod(), wide.max(), wide.min()], rtol=1e-5)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_gather_calls_branches_and_nested_loops(isa):
    isa = isa_named(isa)
    module = Module(isa)
    square = module.function("square", [("v", F32.of(isa.lanes))], F32.of(isa.lanes))
    square.ret(square.args["v"] * square.args["v"])
    with module.kernel("mixed", buffers=["x", "index", "y", "z"], params=["rows", "columns"]) as f:
        indices = f.load(f.buffer["index"], 0, f.i32)
        f.store(f.call(square, f.gather(f.buffer["x"], indices)), f.buffer["y"])
        with f.loop(0, f.param["rows"], carry=[f.const(0, I64)]) as outer:
            with f.loop(0, f.param["columns"], carry=[outer.carried[0]]) as inner:
                odd = f.eq(inner.index & 1, 1)
                (term,) = f.branch(odd, lambda: [outer.index * inner.index], lambda: [f.const(1, I64)])
                inner.next(inner.carried[0] + term)
            outer.next(*inner.results)
        f.store(outer.results[0], f.buffer["z"])
    address = jit().kernel(module)
    x = np.arange(100, dtype=np.float32)
    index = np.resize(np.array([3, 99, 0, 41], np.int32), isa.lanes)
    for rows, columns in ((0, 5), (3, 0), (4, 7)):
        y, z = np.zeros(isa.lanes, np.float32), np.zeros(1, np.int64)
        params = np.array([rows, columns], np.int64)
        run_steps([NativeStep(address, (Ref(x), Ref(index), Ref(y), Ref(z)), params)])
        assert np.array_equal(y, x[index] ** 2)
        assert z[0] == sum(r * c if c % 2 else 1 for r in range(rows) for c in range(columns))


def test_value_has_no_truth():
    module = Module(host_isa())
    with module.kernel("truth", buffers=[], params=["n"]) as f, pytest.raises(TypeError, match="when the kernel runs"):
        bool(f.param["n"] > 1)


def test_loop_checks_what_it_carries():
    module = Module(host_isa())
    f = module.kernel("carry", buffers=[], params=["n"])
    with pytest.raises(TypeError, match="carries"), f.loop(0, f.param["n"], carry=[f.zero]) as loop:
        loop.next(loop.index)


def test_kernel_signature_is_what_ctypes_calls():
    address = jit().kernel(scale_module(host_isa()))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    buffers = np.array([x.ctypes.data, y.ctypes.data], np.int64)
    params = np.array([3, int(np.float32(2).view(np.int32))], np.int64)
    call(buffers.ctypes.data, params.ctypes.data, 1, 2)
    # The second of two threads has the last two of three elements.
    assert list(y) == [0, 2, 2]
