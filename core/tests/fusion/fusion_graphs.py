"""Small graphs and rules that the tests of the fusion engine share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.infer import infer_node
from autofusion.ir.types import TensorType
from autofusion.kinds import STANDARD, FusedKind, find
from autofusion.options import Options
from autofusion.refusal import Refusal
from autofusion.rules.level import Level
from autofusion.rules.pattern import Match, const, op, var
from autofusion.rules.rule import Builder, FuseRule, Region, RewriteRule, Rule, RulePack, Stage

F32 = np.dtype(np.float32)


class Net:
    """Builds a graph with inferred types; every node is its own origin."""

    def __init__(self, name: str = "net") -> None:
        self.graph = Graph(name)

    def input(self, name: str, *shape: int | str, default: np.ndarray | None = None) -> Value:
        return self.graph.add_input(name, TensorType(F32, shape), default)

    def const(self, data: object, name: str = "const") -> Value:
        return self.graph.constant(np.asarray(data, np.float32), name)

    def node(self, op_name: str, *inputs: Value | None, name: str = "", outputs: int = 1, **attrs: object) -> Value:
        node = self.graph.node(op_name, inputs, attrs, name=name, outputs=outputs)
        node.origin = (node.name,)
        infer_node(node)
        return node.output

    def conv_bn(self, x: Value, channels: int, name: str) -> Value:
        """Conv then BatchNormalization, ``name`` and ``name_bn``; 1x1, as many channels out as in."""
        weights = self.const(np.ones((channels, channels, 1, 1)), f"{name}_w")
        y = self.node("Conv", x, weights, name=name)
        parameters = [self.const(np.ones(channels), f"{name}_{p}") for p in ("scale", "bias", "mean", "var")]
        return self.node("BatchNormalization", y, *parameters, name=f"{name}_bn")

    def output(self, *values: Value) -> Graph:
        for value in values:
            self.graph.add_output(value)
        return self.graph


def ops(graph: Graph) -> list[str]:
    graph.sort()
    return [node.op for node in graph.nodes]


def pack(*rules: Rule, name: str = "test", version: str = "1.2.3") -> RulePack:
    return RulePack(name, version, rules)


def rewrite_rule(
    name: str,
    pattern: object,
    rewrite: Callable[[Match, Builder], Sequence[Value] | Refusal],
    **more: object,
) -> RewriteRule:
    return RewriteRule(name, pattern, rewrite, **more)  # type: ignore[arg-type]


def fold_bn_rule() -> RewriteRule:
    """Conv then BatchNormalization becomes Conv (numerically right for unit scale and zero mean only: engine tests)."""
    pattern = op(
        "BatchNormalization",
        op("Conv", var("x"), const("w"), var("b", optional=True), name="conv"),
        const("scale"),
        const("bias"),
        const("mean"),
        const("var"),
    )

    def rewrite(match: Match, builder: Builder) -> Sequence[Value]:
        conv = match.node("conv")
        bias = builder.constant(match.array("bias"))
        return [builder.node("Conv", [match["x"], match["w"], bias], conv.attrs).output]

    return RewriteRule("test.fold_bn", pattern, rewrite, stage=Stage.FOLD)


def double_rule() -> RewriteRule:
    """Neg of Neg is nothing."""
    return RewriteRule("test.neg_neg", op("Neg", op("Neg", var("x"))), lambda match, builder: [match["x"]])


def chain_rule(
    name: str = "test.chain",
    kind: str = "pointwise",
    roots: Sequence[str] = ("Relu",),
    follows: Sequence[str] = ("Relu", "Neg", "Abs", "Exp"),
    **more: object,
) -> FuseRule:
    """From a root, the chain of single-use followers, the longest region first."""

    def grow(node: Node) -> Iterator[Region | Refusal]:
        chain = [node]
        while True:
            value = chain[-1].output
            consumers = value.consumers
            if value.is_output and consumers:
                yield Refusal(f"'{value.name}' is also a graph output", value)
            if value.is_output or len(consumers) != 1 or consumers[0].op not in follows:
                break
            chain.append(consumers[0])
        for length in range(len(chain), 1, -1):
            yield Region(tuple(chain[:length]), node)

    return FuseRule(name, find(STANDARD, kind) or FusedKind(kind), grow, roots=frozenset(roots), **more)  # type: ignore[arg-type]


FULL = Options(level=Level.FULL)
