"""What the fuse rules propose."""

from __future__ import annotations

import pytest

from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text
from autofusion.rules import FuseRule, Refusal, Region
from autofusion_rules_transformer.attention import RULE as ATTENTION
from autofusion_rules_transformer.matmul import ACTIVATION, EPILOGUE
from autofusion_rules_transformer.norm_epilogue import NORM_EPILOGUE
from autofusion_rules_transformer.softmax_epilogue import SOFTMAX_EPILOGUE


def graph(text: str) -> Graph:
    made = from_text(text, SeededConstants())
    infer_graph(made)
    return made


def grown(rule: FuseRule, made: Graph) -> list[list[str]]:
    return [
        [n.op for n in found.nodes]
        for node in made.nodes
        if node.op in rule.roots
        for found in rule.grow(node)
        if isinstance(found, Region)
    ]


def test_product_with_bias_activation_and_residual() -> None:
    made = graph(
        """graph @net(%x: f32[2, 3, 4], %r: f32[2, 3, 5]) -> (y: f32[2, 3, 5]) {
          %w = constant dense<sha256:00000001> : f32[4, 5]
          %b = constant dense<sha256:00000002> : f32[5]
          %0 = MatMul(%x, %w)
          %1 = Add(%0, %b)
          %2 = Gelu(%1)
          %3 = Add(%2, %r)
          return %3
        }"""
    )
    assert grown(ACTIVATION, made) == [["MatMul", "Add", "Gelu"], ["MatMul", "Add"]]
    assert grown(EPILOGUE, made) == [["MatMul", "Add", "Gelu", "Add"]]


@pytest.mark.parametrize("bias", ["f32[1, 1, 1, 1, 5]", "f32[2, 1, 1]", "f32[1, 1, 5]"])
def test_operands_that_enlarge_stay_outside(bias: str) -> None:
    made = graph(
        f"""graph @net(%x: f32[3, 4]) -> (y: f32[*]) {{
          %w = constant dense<sha256:00000001> : f32[4, 5]
          %b = constant dense<sha256:00000002> : {bias}
          %0 = MatMul(%x, %w)
          %1 = Add(%0, %b)
          return %1
        }}"""
    )
    assert grown(ACTIVATION, made) == grown(EPILOGUE, made) == []


@pytest.mark.parametrize("bias", ["f32[5]", "f32[3, 1]", "f32[1, 5]", "f32[]"])
def test_products_take_any_broadcast(bias: str) -> None:
    made = graph(
        f"""graph @net(%x: f32[3, 4], %b: {bias}) -> (y: f32[3, 5]) {{
          %w = constant dense<sha256:00000001> : f32[4, 5]
          %0 = MatMul(%x, %w)
          %1 = Add(%0, %b)
          return %1
        }}"""
    )
    assert grown(ACTIVATION, made) == [["MatMul", "Add"]]


NORM = """graph @net(%x: f32[2, 4], %r: f32[2, 4], %b: f32[4]) -> (y: f32[2, 4]) {{
  %s = constant dense<sha256:00000001> : f32[4]
  %0 = Add(%x, %b)
  %1 = Add(%0, %r)
  %2 = LayerNormalization(%1, %s)
  %3 = Tanh(%2)
  {rest}
}}"""


def test_norm_with_what_stands_before() -> None:
    made = graph(NORM.format(rest="return %3"))
    assert grown(NORM_EPILOGUE, made)[0] == ["Add", "Add", "LayerNormalization", "Tanh"]
    (node,) = (n for n in made.nodes if n.op == "LayerNormalization")
    assert not any(r.multiple_results for r in NORM_EPILOGUE.grow(node) if isinstance(r, Region))


def test_norm_with_a_residual_that_is_used_again() -> None:
    made = graph(NORM.format(rest="%4 = Exp(%1)\n  return %3, %4").replace("-> (y: f32[2, 4])", "-> (f32[*], f32[*])"))
    (node,) = (n for n in made.nodes if n.op == "LayerNormalization")
    first = next(r for r in NORM_EPILOGUE.grow(node) if isinstance(r, Region))
    assert first.multiple_results
    assert [n.op for n in first.nodes] == ["Add", "Add", "LayerNormalization", "Tanh"]


ATTENTION_TEXT = """\
graph @net(%q: f32[2, 4, 5, 8], %k: f32[2, 4, 6, 8], %v: f32[2, 4, 6, 8], %m: MASK) -> (y: f32[2, 4, 5, 8]) {
  %half = constant dense<0.5> : f32[]
  %0 = Transpose(%k) {perm = [0, 1, 3, 2]}
  BODY
  %p = Softmax(%s) {axis = AXIS}
  %y = MatMul(%p, %v)
  return %y
}"""
BODIES = {
    "plain": ("  %s = MatMul(%q, %0)", ["Transpose", "MatMul", "Softmax", "MatMul"]),
    "scaled product": (
        "  %1 = MatMul(%q, %0)\n  %s = Mul(%1, %half)",
        ["Transpose", "MatMul", "Mul", "Softmax", "MatMul"],
    ),
    "scale and mask": (
        "  %1 = MatMul(%q, %0)\n  %2 = Div(%1, %half)\n  %s = Add(%2, %m)",
        ["Transpose", "MatMul", "Div", "Add", "Softmax", "MatMul"],
    ),
    "scaled query": (
        "  %1 = Mul(%q, %half)\n  %2 = MatMul(%1, %0)\n  %s = Add(%m, %2)",
        ["Mul", "Transpose", "MatMul", "Add", "Softmax", "MatMul"],
    ),
    "scaled key": (
        "  %1 = Mul(%0, %half)\n  %s = MatMul(%q, %1)",
        ["Transpose", "Mul", "MatMul", "Softmax", "MatMul"],
    ),
}


def attention(body: str, axis: str = "-1", mask: str = "f32[1, 1, 5, 6]") -> Graph:
    return graph(ATTENTION_TEXT.replace("BODY", body).replace("AXIS", axis).replace("MASK", mask))


@pytest.mark.parametrize("name", BODIES)
def test_attention(name: str) -> None:
    body, wanted = BODIES[name]
    assert grown(ATTENTION, attention(body))[0] == wanted


@pytest.mark.parametrize("mask", ["f32[1, 1, 1, 6]", "f32[2, 1, 5, 1]", "f32[5, 6]", "f32[6]", "f32[2, 4, 5, 6]"])
def test_attention_takes_any_mask_that_does_not_enlarge(mask: str) -> None:
    body, wanted = BODIES["scale and mask"]
    assert grown(ATTENTION, attention(body, mask=mask))[0] == wanted


def test_attention_along_another_axis_is_refused() -> None:
    made = attention(BODIES["plain"][0], axis="2")
    node = next(n for n in made.nodes if n.op == "Softmax")
    (found,) = ATTENTION.grow(node)
    assert isinstance(found, Refusal) and "axis 2, not the last one" in found.reason


def test_attention_with_conditions_and_a_guard() -> None:
    made = attention("  %1 = MatMul(%q, %0)\n  %s = Where(%m, %1, %half)", mask="bool[1, 1, 5, 6]")
    assert grown(ATTENTION, made)[0] == ["Transpose", "MatMul", "Where", "Softmax", "MatMul"]


def test_probabilities_that_are_an_output_are_told() -> None:
    made = attention(BODIES["plain"][0])
    softmax = next(n for n in made.nodes if n.op == "Softmax")
    made.add_output(softmax.output, "probabilities")
    (found,) = ATTENTION.grow(softmax)
    assert isinstance(found, Refusal) and "also an output of the model" in found.reason


def test_probabilities_that_somebody_else_reads_are_told() -> None:
    made = attention(BODIES["plain"][0])
    softmax = next(n for n in made.nodes if n.op == "Softmax")
    other = made.node("ReduceSum", [softmax.output], name="other")
    made.add_output(other.output, "sum")
    (found,) = ATTENTION.grow(softmax)
    assert isinstance(found, Refusal) and "also used by ReduceSum 'other'" in found.reason


def test_scores_that_somebody_else_reads_are_no_attention() -> None:
    made = attention(BODIES["plain"][0])
    made.add_output(next(n for n in made.nodes if n.op == "MatMul").output, "scores")
    assert grown(ATTENTION, made) == []


def test_softmax_with_scale_and_mask() -> None:
    made = attention(BODIES["scale and mask"][0])
    assert grown(SOFTMAX_EPILOGUE, made)[0] == ["Div", "Add", "Softmax"]
