"""The worker threads and the step table."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import OptionError
from autofusion.ir.types import TensorType
from autofusion.kernels import PLAIN, Buffer, BufferKind, TensorView
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import NEON, host_isa
from autofusion_kernels_cpu.codegen.values import I64
from autofusion_kernels_cpu.native.interpreter import InterpreterModule
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.native.pool import Pool
from autofusion_kernels_cpu.native.program import NativeKernel, NativeStep, Program, Ref
from plugins.kernels.cpu.tests.native_support import Arena, aligned

ROOT = Path(__file__).parents[4]


def neighbour_kernel():
    """y[thread] = x[(thread + 1) % threads] + 1: wrong unless all threads meet between two steps."""
    module = Module(host_isa())
    with module.kernel("neighbour", buffers=["x", "y"], params=[]) as f:
        other = f.urem(f.thread + 1, f.threads)
        f.store(f.load(f.buffer["x"], other * 8, I64) + 1, f.buffer["y"], f.thread * 8)
    return jit().kernel(module)


def program_of(pool, steps, arena=None):
    return Program(pool, [NativeKernel(tuple(steps))], arena or Arena(aligned(1)))


def chain(length, threads):
    a, b = np.zeros(8 * threads, np.int64), np.zeros(8 * threads, np.int64)
    kernel, none = neighbour_kernel(), np.zeros(0, np.int64)
    pairs = [(a, b) if i % 2 == 0 else (b, a) for i in range(length)]
    return [NativeStep(kernel, (Ref(x), Ref(y)), none) for x, y in pairs], (a if length % 2 == 0 else b)


@pytest.mark.parametrize("futex", [True, False] if sys.platform == "linux" else [False])
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_barriers_keep_steps_apart(threads, futex):
    pool = Pool(threads, futex)
    steps, result = chain(301, threads)
    program = program_of(pool, steps)
    try:
        for run in range(1, 21):
            program.run()
            # Without zeroing, a run goes on from what the last one left.
            assert set(result[::8]) == {301 if run == 1 else result[0]}
            for step in steps:
                for ref in step.buffers:
                    ref.source[:] = 0
            program.run()
            assert set(result[::8]) == {301}
            if run % 5 == 0:
                # Long enough for the workers to sleep.
                time.sleep(0.002)
    finally:
        pool.close()


def test_several_python_threads():
    pool = Pool(2)
    programs = [chain(100, 2) for _ in range(4)]
    bound = [program_of(pool, steps) for steps, _ in programs]

    def work(program):
        for _ in range(50):
            program.run()

    threads = [threading.Thread(target=work, args=(p,)) for p in bound]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # 100 steps raise a value by 100 from where the first array was: 50 runs of them.
    assert all(set(result[::8]) == {5000} for _, result in programs)
    pool.close()


def test_programs_of_one_thread_do_not_take_turns():
    """Each runs in a thread of its own: a program that is held up holds up no other."""
    steps, result = chain(4, 1)
    held, free = program_of(Pool(1), steps), program_of(Pool(1), steps)
    assert held.pool is not free.pool
    with held.pool.lock:
        worker = threading.Thread(target=free.run)
        worker.start()
        worker.join(20)
        assert not worker.is_alive() and result[0] == 4
    # Also where only the first thread of several has anything to do.
    alone = [NativeStep(s.function, s.buffers, s.params, workers=1) for s in steps]
    assert program_of(Pool(2), alone).pool.threads == 1
    before = threading.active_count()
    held.run()
    assert threading.active_count() == before


def test_close_ends_the_workers_and_a_run_starts_new_ones():
    pool = Pool(3)
    before = threading.active_count()
    for _ in range(3):
        steps, result = chain(2, 3)
        program_of(pool, steps).run()
        assert threading.active_count() == before + 2 and set(result[::8]) == {2}
        pool.close()
        assert threading.active_count() == before


def test_no_steps():
    program_of(Pool(2), []).run()


def test_thread_count_is_checked():
    with pytest.raises(OptionError, match="threads"):
        Pool(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_process_makes_its_own_workers():
    pool = Pool(2)
    steps, result = chain(10, 2)
    program = program_of(pool, steps)
    program.run()

    def child(queue):
        program.run()
        queue.put(int(result[0]))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=20) == 20
    process.join(20)
    assert process.exitcode == 0
    program.run()
    assert result[0] == 20
    pool.close()


def test_process_exits_cleanly_with_sleeping_workers():
    code = (
        "from plugins.kernels.cpu.tests.test_native_pool import *\n"
        "steps, result = chain(10, 3)\n"
        "program = program_of(Pool(3), steps)\n"
        "program.run(); time.sleep(0.01); program.run_timed(); print(result[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "20"), done.stderr


def test_external_slots_are_patched_each_run():
    module = Module(host_isa())
    with module.kernel("copy_one", buffers=["x", "y"], params=[]) as f:
        f.store(f.load(f.buffer["x"], 0, I64), f.buffer["y"])
    kernel = jit().kernel(module)
    type_ = TensorType(np.dtype(np.int64), (4,))

    def external(slot, offset):
        return TensorView(type_, PLAIN, (1,), Buffer(BufferKind.EXTERNAL, 32, slot=slot), offset)

    steps = [NativeStep(kernel, (Ref(external(0, 1)), Ref(external(1, 0), 16)), np.zeros(0, np.int64))]
    program = program_of(Pool(1), steps)
    for value in (5, 6):
        x, y = np.array([0, value, 0, 0]), np.zeros(4, np.int64)
        program.run([x.ctypes.data, y.ctypes.data])
        assert list(y) == [0, 0, value, 0]


def test_arena_and_constant_views_have_addresses():
    arena = Arena(aligned(64, "int64"))
    constant = np.arange(8)
    module = Module(host_isa())
    with module.kernel("copy_one", buffers=["x", "y"], params=[]) as f:
        f.store(f.load(f.buffer["x"], 0, I64), f.buffer["y"])
    type_ = TensorType(np.dtype(np.int64), (8,))
    source = TensorView(type_, PLAIN, (1,), Buffer(BufferKind.CONSTANT, 64, array=constant), offset=3)
    target = TensorView(type_, PLAIN, (1,), Buffer(BufferKind.ARENA, 64, offset=128), offset=2)
    step = NativeStep(jit().kernel(module), (Ref(source), Ref(target)), np.zeros(0, np.int64))
    program_of(Pool(1), [step], arena).run()
    assert arena.data[18] == 3 and arena.data.sum() == 3


def test_times_are_those_of_the_kernels():
    steps, _ = chain(7, 2)
    pool = Pool(2)
    kernels = [NativeKernel(tuple(steps[:3])), NativeKernel(()), NativeKernel(tuple(steps[3:]))]
    seconds = Program(pool, kernels, Arena(aligned(1))).run_timed()
    assert len(seconds) == 3 and seconds[0] > 0 and seconds[1] == 0 and 0 < seconds[2] < 1
    pool.close()


def test_interpreter_for_aarch64():
    import llvmlite.binding as llvm

    # Verified, not assembled: an inline instruction is only known to the assembler of its own architecture.
    for futex in (True, False):
        text = InterpreterModule(NEON, futex).text()
        llvm.parse_assembly(text).verify()
        assert ("svc #0" in text) == futex and "pause" not in text
