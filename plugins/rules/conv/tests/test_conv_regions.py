"""What the fuse rules propose: which nodes, largest first, and why nothing."""

from __future__ import annotations

from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import SeededConstants, from_text
from autofusion.rules import FuseRule, Refusal, Region
from autofusion_rules_conv.epilogue import ACTIVATION, EPILOGUE

HEAD = """\
graph @net(%x: f32[1, 3, 4, 4], %r: f32[1, 4, 4, 4], %g: f32[1, 4, 1, 1], %row: f32[4]) -> (y: f32[1, 4, 4, 4]) {
  %w = constant dense<sha256:00000001> : f32[4, 3, 1, 1]
  %three = constant dense<3.0> : f32[]
  %zero = constant dense<0.0> : f32[]
  %six = constant dense<6.0> : f32[]
  %slope = constant dense<sha256:00000002> : f32[4, 1, 1]
  %c = Conv(%x, %w)
"""


def graph(body: str) -> Graph:
    made = from_text(HEAD + body + "}", SeededConstants())
    infer_graph(made)
    return made


def grown(rule: FuseRule, made: Graph) -> list[list[str]]:
    conv = next(node for node in made.nodes if node.op == "Conv")
    return [[n.op for n in region.nodes] for region in rule.grow(conv) if isinstance(region, Region)]


def refusals(made: Graph) -> list[str]:
    conv = next(node for node in made.nodes if node.op == "Conv")
    return [found.reason for found in ACTIVATION.grow(conv) if isinstance(found, Refusal)]


def test_residual_and_activation_are_the_short_form() -> None:
    made = graph("  %a = Add(%r, %c)\n  %y = Relu(%a)\n  return %y\n")
    assert grown(ACTIVATION, made) == [["Conv", "Add", "Relu"], ["Conv", "Add"]]
    assert grown(EPILOGUE, made) == []


def test_activation_with_parameters_is_short() -> None:
    for activation in ("Clip(%c, %zero, %six)", "PRelu(%c, %slope)", "LeakyRelu(%c) {alpha = 0.1}", "Gelu(%c)"):
        made = graph(f"  %y = {activation}\n  return %y\n")
        assert [len(nodes) for nodes in grown(ACTIVATION, made)] == [2], activation


def test_any_other_chain_is_an_epilogue_and_each_region_is_proposed_once() -> None:
    made = graph("  %a = Relu(%c)\n  %b = Add(%a, %r)\n  %d = Mul(%b, %g)\n  %y = Tanh(%d)\n  return %y\n")
    short, long = grown(ACTIVATION, made), grown(EPILOGUE, made)
    assert short == [["Conv", "Relu", "Add"], ["Conv", "Relu"]]
    assert long == [["Conv", "Relu", "Add", "Mul", "Tanh"], ["Conv", "Relu", "Add", "Mul"]]


def test_branches_that_meet_again_are_taken_whole() -> None:
    made = graph(
        "  %a = Add(%c, %three)\n  %b = Clip(%a, %zero, %six)\n  %d = Mul(%c, %b)\n  %y = Div(%d, %six)\n  return %y\n"
    )
    assert grown(EPILOGUE, made) == [["Conv", "Add", "Clip", "Mul", "Div"], ["Conv", "Add", "Clip", "Mul"]]


def test_growth_stops_where_somebody_else_looks() -> None:
    made = graph("  %a = Relu(%c)\n  %y = Tanh(%a)\n  %m = GlobalAveragePool(%a)\n  %z = Add(%y, %m)\n  return %z\n")
    assert grown(ACTIVATION, made) == [["Conv", "Relu"]]
    assert grown(EPILOGUE, made) == []


def test_a_residual_that_depends_on_the_region_is_no_operand() -> None:
    made = graph("  %m = GlobalAveragePool(%c)\n  %y = Mul(%c, %m)\n  return %y\n")
    assert grown(EPILOGUE, made) == grown(ACTIVATION, made) == []
    assert refusals(made) == ["Conv 'Conv' -> Mul 'Mul': 'c' is also used by GlobalAveragePool 'GlobalAveragePool'"]


def test_operands_along_the_width_are_refused() -> None:
    made = graph("  %y = Add(%c, %row)\n  return %y\n")
    assert grown(ACTIVATION, made) == []
    assert "'row' is f32[4], but 'c' is f32[1, 4, 4, 4]" in refusals(made)[0]


def test_a_result_that_is_an_output_is_refused() -> None:
    made = graph("  %y = Relu(%c)\n  return %y\n")
    conv = made.nodes[0]
    made.add_output(conv.output, "raw")
    assert grown(ACTIVATION, made) == []
    assert refusals(made) == ["Conv 'Conv' -> Relu 'Relu': 'c' is also a graph output"]
