"""What the fuse rules propose."""

from __future__ import annotations

from autofusion.fusion.optimise import prepare
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.operators import OpClass, op_class
from autofusion.ir.text import from_text
from autofusion.options import Options
from autofusion.rules import Region
from autofusion_rules_pointwise.pack import PACK
from autofusion_rules_pointwise.reduction import RULE as REDUCTION
from autofusion_rules_pointwise.region import REGION


def graph(text: str) -> Graph:
    made = from_text(text)
    infer_graph(made)
    return made


def regions(made: Graph) -> list[tuple[str, list[str]]]:
    """(anchor, operators) of every region, in the order of the nodes."""
    return [
        (node.op, [n.op for n in found.nodes])
        for node in made.nodes
        if op_class(node) is OpClass.POINTWISE
        for found in REGION.grow(node)
        if isinstance(found, Region)
    ]


def test_a_chain_with_broadcasts_is_found_once_from_its_end() -> None:
    made = graph(
        """graph @net(%x: f32[2, 3, 4], %b: f32[3, 1], %s: f32[4]) -> (y: f32[2, 3, 4]) {
          %0 = Add(%x, %b)
          %1 = Sigmoid(%0)
          %2 = Mul(%0, %1)
          %3 = Mul(%2, %s)
          return %3
        }"""
    )
    assert regions(made) == [("Mul", ["Add", "Sigmoid", "Mul", "Mul"])]


def test_what_is_smaller_stays_outside() -> None:
    made = graph(
        """graph @net(%x: f32[2, 3, 4], %s: f32[4]) -> (y: f32[2, 3, 4]) {
          %0 = Sqrt(%s)
          %1 = Neg(%0)
          %2 = Mul(%x, %1)
          %3 = Tanh(%2)
          return %3
        }"""
    )
    assert regions(made) == [("Neg", ["Sqrt", "Neg"]), ("Tanh", ["Mul", "Tanh"])]


def test_values_that_others_need_end_a_region() -> None:
    made = graph(
        """graph @net(%x: f32[2, 3]) -> (y: f32[2, 3], z: f32[2, 3], m: f32[2, 1]) {
          %a = constant dense<[1]> : i64[1]
          %0 = Neg(%x)
          %1 = Exp(%0)
          %2 = Tanh(%1)
          %3 = Sqrt(%2)
          %m = ReduceSum(%2, %a)
          return %3, %1, %m
        }"""
    )
    assert ("Exp", ["Neg", "Exp"]) in regions(made)
    assert all("ReduceSum" not in nodes for _, nodes in regions(made))
    assert not any(nodes[:2] == ["Exp", "Tanh"] for _, nodes in regions(made))


def test_readers_of_the_same_value_are_one_region_of_several_results() -> None:
    made = graph(
        """graph @net(%x: f32[2, 3]) -> (y: f32[2, 3], z: f32[2, 3], e: f32[2, 3]) {
          %0 = Tanh(%x)
          %1 = Neg(%0)
          %2 = Exp(%0)
          return %1, %2, %2
        }"""
    )
    assert ["Exp", "Neg", "Tanh"] in [sorted(nodes) for _, nodes in regions(made)]


def test_a_region_whose_value_goes_out_and_comes_back_is_not_proposed() -> None:
    made = graph(
        """graph @net(%x: f32[3, 3], %w: f32[3, 3]) -> (y: f32[3, 3]) {
          %0 = Tanh(%x)
          %1 = Neg(%0)
          %2 = MatMul(%1, %w)
          %3 = Add(%2, %0)
          return %3
        }"""
    )
    assert not any({"Neg", "Add"} <= set(nodes) for _, nodes in regions(made))


def test_what_many_operands_are_made_of_is_proposed_too() -> None:
    names = [f"%x{i}: f32[2, 3]" for i in range(9)]
    steps = "".join(f"  %r{i} = Relu(%x{i})\n  %n{i} = Neg(%r{i})\n" for i in range(9))
    text = f"graph @net({', '.join(names)}) -> (y: f32[2, 3]) {{\n{steps}"
    made = graph(text + f"  %s = Sum({', '.join(f'%n{i}' for i in range(9))})\n  return %s\n}}")
    found = regions(made)
    assert found.count(("Neg", ["Relu", "Neg"])) == 9 and max(len(nodes) for _, nodes in found) == 19


def test_open_shapes_do_not_fuse_and_integers_do() -> None:
    made = graph(
        """graph @net(%x: f32[N, 3], %i: i64[3]) -> (y: f32[N, 3], j: i64[3]) {
          %0 = Neg(%x)
          %1 = Exp(%0)
          %2 = Neg(%i)
          %3 = Abs(%2)
          return %1, %3
        }"""
    )
    assert regions(made) == [("Abs", ["Neg", "Abs"])]


def test_truth_values_are_part_of_a_region() -> None:
    made = graph(
        """graph @net(%x: f32[2, 3], %z: f32[2, 3]) -> (y: f32[2, 3]) {
          %0 = Greater(%x, %z)
          %1 = Exp(%x)
          %2 = Where(%0, %1, %z)
          return %2
        }"""
    )
    assert [sorted(nodes) for _, nodes in regions(made)] == [["Exp", "Greater", "Where"]]


def test_reduction_with_both_sides() -> None:
    made = graph(
        """graph @net(%x: f32[2, 3]) -> (y: f32[2, 1]) {
          %a = constant dense<[1]> : i64[1]
          %e = constant dense<1e-5> : f32[]
          %0 = Mul(%x, %x)
          %1 = ReduceMean(%0, %a)
          %2 = Add(%1, %e)
          %3 = Sqrt(%2)
          return %3
        }"""
    )
    node = next(n for n in made.nodes if n.op == "ReduceMean")
    found = [[n.op for n in r.nodes] for r in REDUCTION.grow(node) if isinstance(r, Region)]
    assert found[0] == ["Mul", "ReduceMean", "Add", "Sqrt"]
    assert found == sorted(found, key=len, reverse=True) or len(found) == 5
    assert ["ReduceMean", "Add"] in found and ["Mul", "ReduceMean"] in found


def test_the_same_is_computed_once_whoever_else_reads_the_operand() -> None:
    made = graph("graph @net(%x: f32[3]) -> (y: f32[3]) {\n  %0 = Exp(%x)\n  return %0\n}")
    x = made.inputs[0]
    for index in range(200):
        made.add_output(made.node("Exp", [x]).output, f"y{index}")
    infer_graph(made)
    found, _ = prepare(made, [PACK], Options())
    assert [node.op for node in found.nodes] == ["Exp"]
