"""Packs that misbehave, one for each way: each is told with its name and version, and the model runs all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.distributions import Distribution, run
from tests.support.projects import run as run_python

HOOK = "from autofusion.hooks import hookimpl\n"

RULES = (
    HOOK
    + """
@hookimpl
def autofusion_rule_packs():
    from autofusion.rules.pattern import op, var
    from autofusion.rules import POINTWISE, FuseRule, RewriteRule, RulePack
    def rewrite(match, builder):
        {rewrite}
    def grow(node):
        {grow}
    rules = (
        RewriteRule("{name}.rewrite", op("Neg", op("Neg", var("x"))), rewrite),
        FuseRule("{name}.fuse", POINTWISE, grow, roots=frozenset({{"Relu"}}), priority=1000),
    )
    return [RulePack("{name}", "6.1", rules)]
"""
)
KERNELS = (
    HOOK
    + """
import numpy as np
class Pack:
    name, version, kinds, is_reference, blocks, launch_seconds = "{name}", "6.1", (), False, (), 0.0
    def offer(self, node, target):
        from autofusion.kernels.contract import Offer, Operand, Refusal
        if node.op != "Relu":
            return Refusal("it runs Relu only")
        def kernel(arrays):
            {kernel}
        def bind(context, inputs, outputs):
            {bind}
            return kernel
        {offer}
        return [Offer("fast", (Operand(),), (Operand(),), bind, seconds=0.0)]
    def reorder(self, type_, source, result, target):
        return None
    def assemble(self, steps, memory, target):
        {assemble}

@hookimpl
def autofusion_kernel_packs(target):
    return [Pack()]
"""
)


def rules(name: str, rewrite: str = "return [match['x']]", grow: str = "yield from ()") -> str:
    return RULES.format(name=name, rewrite=rewrite, grow=grow)


def kernels(
    name: str,
    kernel: str = "return [np.maximum(arrays[0], 0)]",
    bind: str = "pass",
    offer: str = "pass",
    assemble: str = "return None",
) -> str:
    return KERNELS.format(name=name, kernel=kernel, bind=bind, offer=offer, assemble=assemble)


def rule_pack(name: str, **parts: str) -> Distribution:
    return Distribution(name, rules(name, **parts), "6.1", "autofusion.rules")


def kernel_pack(name: str, **parts: str) -> Distribution:
    return Distribution(name, kernels(name, **parts), "6.1")


PACKS: dict[Distribution, str] = {
    # What they do, and the words in which it is told.
    Distribution("at-import", "raise RuntimeError('boom')\n", "6.1"): "of at-import==6.1: failed: RuntimeError: boom",
    Distribution(
        "in-hook", HOOK + "@hookimpl\ndef autofusion_kernel_packs(target):\n    raise KeyError('boom')\n", "6.1"
    ): ("of in-hook==6.1: failed: KeyError: 'boom'"),
    Distribution("exit-at-import", "raise SystemExit('boom')\n", "6.1"): (
        "of exit-at-import==6.1: failed: SystemExit: boom"
    ),
    rule_pack("exit-in-rewrite", rewrite="raise SystemExit('boom')"): (
        "rule 'exit-in-rewrite.rewrite' of pack 'exit-in-rewrite' 6.1 raised SystemExit: boom"
    ),
    rule_pack("exit-in-grow", grow="raise SystemExit('boom')\n        yield"): (
        "rule 'exit-in-grow.fuse' of pack 'exit-in-grow' 6.1 raised SystemExit: boom"
    ),
    kernel_pack("exit-in-offer", offer="raise SystemExit('boom')"): (
        "refused by exit-in-offer: it (version 6.1) raised SystemExit: boom"
    ),
    kernel_pack("exit-in-kernel", kernel="raise SystemExit('boom')"): (
        "kernel 'fast' of pack 'exit-in-kernel' 6.1 raised SystemExit: boom"
    ),
    Distribution("nothing", "x = 1\n", "6.1"): "of nothing==6.1: failed: 'nothing' implements no hook",
    Distribution("wrong-type", HOOK + "@hookimpl\ndef autofusion_kernel_packs(target):\n    return {1: 2}\n", "6.1"): (
        "of wrong-type==6.1: failed: the hook returned dict, expected a list"
    ),
    Distribution("asleep", "import time\ntime.sleep(1000)\n", "6.1"): (
        "of asleep==6.1: failed: HangError: it did not end within 2 s (at __init__.py:2)"
    ),
    Distribution("spinning", "while True:\n    pass\n", "6.1"): (
        "of spinning==6.1: failed: HangError: it did not end within 2 s (at __init__.py:"
    ),
    Distribution(
        "hook-asleep",
        HOOK + "@hookimpl\ndef autofusion_kernel_packs(target):\n    import time\n    time.sleep(1000)\n",
        "6.1",
    ): "of hook-asleep==6.1: failed: HangError: it did not end within 2 s (at __init__.py:5)",
    rule_pack("no-refusal", rewrite="return 'not legal'"): "rule 'no-refusal.rewrite' of pack 'no-refusal' 6.1 raised",
    rule_pack("in-rewrite", rewrite="raise ValueError('boom')"): (
        "rule 'in-rewrite.rewrite' of pack 'in-rewrite' 6.1 raised ValueError: boom"
    ),
    rule_pack("rewrite-type", rewrite="return [3]"): (
        "rule 'rewrite-type.rewrite' of pack 'rewrite-type' 6.1 raised BrokenRuleError: it returned int"
    ),
    rule_pack("in-grow", grow="raise ValueError('boom')\n        yield"): (
        "rule 'in-grow.fuse' of pack 'in-grow' 6.1 raised ValueError: boom"
    ),
    rule_pack("grow-type", grow="yield node"): "rule 'grow-type.fuse' of pack 'grow-type' 6.1 raised AttributeError",
    kernel_pack("in-offer", offer="raise ValueError('boom')"): (
        "refused by in-offer: it (version 6.1) raised ValueError: boom (__init__.py:"
    ),
    kernel_pack("offer-type", offer="return 3"): (
        "refused by offer-type: it (version 6.1) answered with int, expected offers"
    ),
    kernel_pack("offer-item", offer="return ['fast']"): (
        "refused by offer-item: it (version 6.1) made an offer that is of type str"
    ),
    kernel_pack("offer-size", offer="return [Offer('fast', (), (), bind)]"): (
        "refused by offer-size: it (version 6.1) made an offer that has 0 operands and 0 results"
    ),
    kernel_pack("in-bind", bind="raise ValueError('boom')"): (
        "kernel 'fast' of pack 'in-bind' 6.1 raised ValueError: boom (__init__.py:"
    ),
    kernel_pack(
        "bind-type", bind="return 3"
    ): "pack 'bind-type' 6.1 bound kernels that are not callable, but assembles none, for Relu 'relu'",
    kernel_pack("in-assemble", bind="return 3", assemble="raise ValueError('boom')"): (
        "pack 'in-assemble' 6.1 raised ValueError: boom"
    ),
    kernel_pack("in-kernel", kernel="raise ValueError('boom')"): (
        "kernel 'fast' of pack 'in-kernel' 6.1 raised ValueError: boom (__init__.py:"
    ),
    kernel_pack("kernel-shape", kernel="return [arrays[0][:1]]"): (
        "kernel 'fast' of pack 'kernel-shape' 6.1 returned float32[1, 3], expected float32[2, 3]"
    ),
    kernel_pack("kernel-type", kernel="return 3"): (
        "kernel 'fast' of pack 'kernel-type' 6.1 returned int results, expected 1"
    ),
}

MODEL = """
import logging
import numpy as np
logging.basicConfig(format="%(levelname)s %(message)s")
import autofusion
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
from autofusion.tools import explain
graph = Graph("g")
x = graph.add_input("x", TensorType(np.dtype(np.float32), (2, 3)))
twice = graph.node("Neg", [graph.node("Neg", [x], name="n1", origin=["n1"]).output], name="n2", origin=["n2"])
relu = graph.node("Relu", twice.outputs, name="relu", origin=["relu"])
graph.add_output(relu.output, "y")
session = autofusion.compile(graph, disable=["pointwise"])
given = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
for _ in range(2):
    print("result", (session.run({"x": given})["y"] + 0.0).tolist())
print("\\n".join(explain.node(session, "relu")))
for record in session.ledger.records:
    print(record.rule, record.verdict.value, record.reason)
"""
RESULT = "result [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]]"


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.dist)
def test_it_is_named_and_the_model_runs(pack: Distribution, tmp_path: Path) -> None:
    pack.install(tmp_path)
    done = run(tmp_path, MODEL, AUTOFUSION_PLUGIN_SECONDS="2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [RESULT, RESULT]
    assert PACKS[pack] in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["in-kernel", "in-bind"])
def test_strict_raises_instead(name: str, tmp_path: Path) -> None:
    pack = next(p for p in PACKS if p.dist == name)
    pack.install(tmp_path)
    done = run(tmp_path, MODEL, AUTOFUSION_STRICT="1")
    assert done.returncode != 0
    assert f"KernelError: {PACKS[pack]}" in done.stderr


def test_all_together(tmp_path: Path) -> None:
    for pack in PACKS:
        pack.install(tmp_path)
    done = run(tmp_path, MODEL, AUTOFUSION_PLUGIN_SECONDS="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [RESULT, RESULT]
    for pack in PACKS:
        if pack.group != "autofusion.rules":  # of rules that want one node, one has its turn
            assert pack.dist in done.stdout + done.stderr


# ---- what cannot be stopped, but is found ----------------------------------------------------------------------------

PATCHES = {
    "at-import": "from autofusion.cost.model import CostModel\nCostModel.price = lambda *a, **k: None\n" + HOOK,
    "in-hook": HOOK,
}
PATCHED = """
@hookimpl
def autofusion_rule_packs():
    from autofusion.rules.rule import RulePack
    PATCH
    return [RulePack("patcher", "6.1", ())]
"""


# Asks every question of the kit, in a process of its own.
@pytest.mark.slow
@pytest.mark.parametrize("where", PATCHES)
def test_the_kit_fails_a_pack_that_patches_core(where: str, tmp_path: Path) -> None:
    patch = "pass" if where == "at-import" else "import autofusion.ir.verify as v; v.verify = lambda graph: None"
    pack = Distribution("patcher", PATCHES[where] + PATCHED.replace("PATCH", patch), "6.1", "autofusion.rules")
    pack.install(tmp_path)
    arguments = [
        "-m",
        "pytest",
        "--pyargs",
        "autofusion.testing",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "Rules_patcher",
    ]
    done = run_python(tmp_path, arguments, cwd=tmp_path)
    replaced = "autofusion.cost.model.CostModel.price" if where == "at-import" else "autofusion.ir.verify.verify"
    assert f"plugin 'patcher' replaces parts of core: {replaced}" in done.stdout, done.stdout
    assert "test_leaves_core_alone" in done.stdout
