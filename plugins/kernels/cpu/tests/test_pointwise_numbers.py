"""Numbers in pointwise regions: parameters of one kernel, unless the code depends on them."""

from __future__ import annotations

import numpy as np

import autofusion
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import from_text
from autofusion_kernels_cpu.codegen.isa import isa_of
from autofusion_kernels_cpu.codegen.region import Region, make_region
from autofusion_kernels_cpu.pointwise.kernel import Structure, build
from plugins.kernels.cpu.tests.kernel_harness import target_for
from plugins.kernels.cpu.tests.native_support import RUNNABLE


def structure(number: float, op: str) -> str:
    made = from_text(
        f"""graph @net(%x: f32[6]) -> (y: f32[6]) {{
          %c = constant dense<{number}> : f32[]
          %0 = {op}(%x, %c)
          %1 = Neg(%0)
          return %1
        }}"""
    )
    infer_graph(made)
    region = make_region(made.nodes[0], made.nodes, {made.inputs[0]: 0}, made.outputs)
    assert isinstance(region, Region)
    return build(region, Structure(("vector",)), isa_of(target_for(RUNNABLE[0]))).structure


def test_numbers_of_arithmetic_are_parameters() -> None:
    for op in ("Add", "Div", "Max", "Mul"):
        assert structure(0.3, op) == structure(0.7, op)


def test_numbers_that_change_the_code_are_in_it() -> None:
    assert structure(0.3, "Div") != structure(2.0, "Div")
    assert structure(2.0, "Pow") != structure(3.0, "Pow")


def test_numbers_of_different_shapes_are_in_one_region() -> None:
    made = from_text(
        """graph @net(%x: f32[6]) -> (y: f32[6]) {
          %a = constant dense<0.3> : f32[]
          %b = constant dense<[0.7]> : f32[1]
          %0 = Mul(%x, %a)
          %1 = Add(%0, %b)
          return %1
        }"""
    )
    infer_graph(made)
    session = autofusion.compile(made)
    x = np.arange(6, dtype=np.float32)
    assert [step.kernel for step in session.plan.steps] == ["cpu:pointwise.region"]
    np.testing.assert_allclose(session.run({"x": x})["y"], x * np.float32(0.3) + np.float32(0.7), rtol=1e-6)
