"""What signal handlers and other threads raise while a plugin's code runs reaches whoever called the session, and no
kernel, rule or frontend pays for it. In processes of their own: handlers belong to the main thread.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import ctypes, logging, signal, sys, threading, time
import numpy as np
import autofusion as af
from autofusion.cost.detect import detect
from autofusion.frontends import LoadOptions
from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
from autofusion.kernels import Numerics, Offer, Operand, Refusal
from autofusion.plugins.registry import Registry, default_registry
from autofusion.rules import FuseRule, Region, RewriteRule, RulePack, Stage, op, var

logging.basicConfig(format="LOG %(message)s", level=logging.WARNING, stream=sys.stdout)
where = ""
armed = False

def busy(place):
    # Work in Python or a wait in C, long enough for the signal to come in between.
    global armed
    if place == where and armed:
        armed = False
        trigger()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            sum(range(1000)); time.sleep(0.001)
        print("NOTHING CAME")

class Pack:
    name, version, kinds, is_reference, blocks, launch_seconds = "slow", "1.0", (), False, (), 0.0
    def offer(self, node, target):
        busy("offer")
        if node.op != "Relu":
            return Refusal("it runs Relu only")
        def bind(context, inputs, outputs):
            busy("bind")
            def kernel(arrays):
                busy("run")
                return [np.maximum(arrays[0], 0)]
            return kernel
        return [Offer("relu", (Operand(),), (Operand(),), bind, seconds=0.0, numerics=Numerics.EXACT)]
    def reorder(self, *_): return None
    def assemble(self, *_): return None

def rewrite(match, builder):
    busy("rule")
    return [builder.op("Relu", match["x"])]

RULES = RulePack("slow", "1.0", [RewriteRule("slow.double", op("Relu", op("Relu", var("x"))), rewrite,
                                             stage=Stage.FOLD, doc="Two are one.")])

class Frontend:
    name, version, suffixes = "slow", "1.0", (".slow",)
    def recognises(self, path):
        return str(path).endswith(".slow")
    def load(self, path, options):
        try:
            busy("frontend")
        except Exception as error:  # what frontends do: whatever is wrong with a file is a model error
            raise ValueError(f"the file is damaged: {error}") from error
        return model()
    def reference(self, path, options): raise NotImplementedError

def model():
    graph = Graph("g")
    x = graph.add_input("x", TensorType(F32, (2, 3)))
    graph.add_output(graph.node("Relu", [graph.node("Relu", [x]).output]).output, "y")
    return graph

target = detect(threads=1)
registry = Registry.of(frontends=[Frontend()], rule_packs=[RULES],
                       kernel_packs=[Pack(), *default_registry().kernel_packs(target)])
open("m.slow", "w").close()

def session():
    made = af.compile("m.slow", target=target, registry=registry)
    made.prepare({"x": (2, 3)})
    return made

def run(made):
    return made.run({"x": np.float32([[-1, 0, 1]] * 2)})["y"]

def both():
    run(session())

class Stop(Exception):
    pass
"""

HOW = {
    "SIGTERM": """
        import os
        def trigger(): threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM]).start()
        def prepare_handler(): signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
        expected = SystemExit
    """,
    "SIGALRM": """
        def out_of_time(number, frame):
            signal.signal(signal.SIGALRM, signal.SIG_IGN)  # no handler is left to be found
            raise TimeoutError("out of time")
        def prepare_handler(): signal.signal(signal.SIGALRM, out_of_time)
        def trigger(): signal.setitimer(signal.ITIMER_REAL, 0.05)
        expected = TimeoutError
    """,
    "thread": """
        def prepare_handler(): pass
        main = threading.get_ident()
        def throw():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(Stop))
        def trigger(): threading.Timer(0.05, throw).start()
        expected = Stop
    """,
}

BODY = """
for where in ("run", "bind", "offer", "rule", "frontend"):
    made = None if where != "run" else session()
    if made is not None:
        run(made)
    prepare_handler()
    armed = True
    try:
        run(made) if made is not None else both()
    except expected as error:
        print(where, type(error).__name__, error.args)
    made = made or session()
    np.testing.assert_array_equal(run(made), [[0, 0, 1]] * 2)
    print([step.kernel for step in made.plan.steps])
"""
PLACES = ("run", "bind", "offer", "rule", "frontend")


@pytest.mark.parametrize("how", HOW)
def test_it_reaches_the_caller_and_nothing_is_quarantined(how: str, tmp_path: object) -> None:
    code = PRELUDE + textwrap.dedent(HOW[how]) + BODY
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=str(tmp_path), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    came = {"SIGTERM": "SystemExit (7,)", "SIGALRM": "TimeoutError ('out of time',)", "thread": "Stop ()"}[how]
    expected = [line for place in PLACES for line in (f"{place} {came}", "['slow:relu']")]
    assert done.stdout.splitlines() == expected, done.stdout + done.stderr
