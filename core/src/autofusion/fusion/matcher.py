"""Matching of patterns: each pattern becomes closures that call on success, so that backtracking is a mere return.

A closure ``match(value, state, then)`` tries to match ``value`` and, for every way that fits, calls ``then``; it
returns True as soon as ``then`` does, and otherwise leaves ``state`` as it found it. Optional parts, alternatives and
both orders of commutative operands are thus all tried, at the cost of the pattern's size and never of the graph's.

Decisions that patterns can rely on:

- A name means one thing: the same ``Var`` or ``Const`` name is the same value (or an equal constant), the same ``Op``
  name the same node. ``Op`` nodes without a name that occur twice may be one node or two.
- ``Const(equals=...)`` accepts a constant of any shape whose elements all have that value, and, as the operand of a
  pointwise operator, only if it does not enlarge the result: some other operand must already have the result's shape.
- Operands of one operator are tried in the order Op-like, Const, Var, whatever their positions.
- Names inside the ``step`` of a ``Repeat`` called ``r`` are local to each step: the step nearest to the root is the
  node ``r[0]`` and binds ``r[0].name``, the next one is ``r[1]``, and so on; ``match.chains["r"]`` has the nodes in
  that order. The step's operand ``through`` stands for the rest of the chain, whatever pattern is written there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autofusion.fusion.conditions import (
    attribute_of,
    attribute_reason,
    enlarges,
    equal_constants,
    fits,
    is_uniform,
    not_a_root,
    shown,
    shown_data,
    where_from,
    why_not_constant,
)
from autofusion.fusion.prepare import least_nodes, localised, longest_path, most_nodes, one_of, validate
from autofusion.ir.graph import Node, Value
from autofusion.ir.operators.schema import COMMUTATIVE
from autofusion.rules.facts import constant_hint, private_hint
from autofusion.rules.pattern import (
    Const,
    Either,
    Match,
    Miss,
    Op,
    Operand,
    Optional,
    Pattern,
    Repeat,
    Var,
    roots_of,
    walk,
)

_PLAIN = frozenset({"Add", "Div", "Mul", "Neg", "Pow", "Sub"})

Then = Callable[[], bool]
Closure = Callable[[Value | None, "_State", Then], bool]
NodeClosure = Callable[[Node, "_State", Then], bool]
Prefilter = Callable[[Node], bool]
Explain = Callable[[], tuple[str, Node | Value | None] | tuple[str, Node | Value | None, str]]
"""Tells the reason, the culprit, and (where that can be said) what would change it."""


class Matcher:
    """A prepared pattern.

    ``roots`` are the operators that it can start at, ``size`` the least number of nodes that a match of its largest
    alternative has, ``depth`` the longest path of nodes in it. Raises PluginError if the pattern itself is wrong.
    """

    __slots__ = ("_alternatives", "_chains", "_closures", "_prefilters", "depth", "pattern", "roots", "size")

    def __init__(self, pattern: Pattern) -> None:
        validate(pattern)
        self.pattern = pattern
        self._alternatives = roots_of(pattern)
        self.roots = frozenset(name for alternative in self._alternatives for name in alternative.ops)
        self.size = max(map(least_nodes, self._alternatives))
        self.depth = longest_path(pattern)
        self._chains = tuple(p.name for p in walk(pattern) if isinstance(p, Repeat))
        self._prefilters: dict[str, list[Prefilter]] = {}
        self._closures: dict[str, list[NodeClosure]] = {}
        for alternative in self._alternatives:
            prefilter = _prefilter(alternative, self.size)
            for name in alternative.ops:
                self._prefilters.setdefault(name, []).append(prefilter)

    def match(self, root: Node) -> Match | Miss:
        """Match at ``root``; the Miss tells the deepest point that was reached."""
        found = self._match(root)
        if isinstance(found, Match):
            return found
        if found.explain is None:
            return Miss(max(found.depth, 0), not_a_root(root, self.roots), root, found.deepest)
        reason, culprit, *hint = found.explain()
        return Miss(max(found.depth, 0), reason, culprit, found.deepest, *hint)

    def prefilter(self, op: str) -> Prefilter:
        """A cheap test of roots with operator ``op``: where it says no, ``find`` returns None. Ask it first: most nodes
        are none of a rule's sites.
        """
        prefilters = self._prefilters.get(op, [])
        return prefilters[0] if len(prefilters) == 1 else lambda root: any(prefilter(root) for prefilter in prefilters)

    def find(self, root: Node) -> Match | Miss | None:
        """Like ``match``, but without a Miss where little of the pattern was there."""
        found = self._match(root)
        if isinstance(found, Match):
            return found
        if found.explain is None or not self._is_telling(found):
            return None
        reason, culprit, *hint = found.explain()
        return Miss(found.depth, reason, culprit, found.deepest, *hint)

    def _match(self, root: Node) -> Match | _State:
        state = _State(root)

        def accept() -> bool:
            return _inside_is_private(state)

        closures = self._closures.get(root.op)
        if closures is None:  # made at the first node that passes a prefilter: few rules meet one in a model
            closures = [_node_closure(alternative) for alternative in self._alternatives if root.op in alternative.ops]
            self._closures[root.op] = closures
        for closure in closures:
            if closure(root, state, accept):
                return Match(
                    root,
                    list(state.nodes),
                    {name: value for name, value in state.values.items() if value is not None},
                    state.named,
                    {name: state.chain(name) for name in self._chains},
                    state.shared,
                )
        return state

    def _is_telling(self, found: _State) -> bool:
        """True if so much of the pattern was there that a user may have expected it to match.

        Sums and products are everywhere: a few of them alone are no sign that anybody meant a GELU.
        """
        depth = found.depth
        if depth < _telling_depth(self.size):
            return False
        return 4 * depth >= 3 * self.size or any(node.op not in _PLAIN for node in found.deepest)


class _State:
    """What has been bound so far, and the deepest failure."""

    __slots__ = ("deepest", "depth", "explain", "named", "nodes", "root", "shared", "values")

    def __init__(self, root: Node) -> None:
        self.root = root
        self.nodes: dict[Node, bool] = {}
        self.values: dict[str, Value | None] = {}
        self.named: dict[str, Node] = {}
        self.shared: set[Node] = set()
        self.depth = -1
        self.deepest: tuple[Node, ...] = ()
        self.explain: Explain | None = None

    def chain(self, name: str) -> list[Node]:
        """The nodes of the Repeat called ``name``."""
        nodes: list[Node] = []
        while (key := f"{name}[{len(nodes)}]") in self.named:
            nodes.append(self.named[key])
        return nodes

    def fail(self, explain: Explain) -> bool:
        """Note a failure if it is the deepest so far; always False."""
        if len(self.nodes) > self.depth:
            self.note(explain)
        return False

    def note(self, explain: Explain) -> None:
        """Make this the failure to tell."""
        self.depth, self.explain, self.deepest = len(self.nodes), explain, tuple(self.nodes)


# ---- one closure for each kind of pattern node ------------------------------------------------------------------


def _closure(pattern: Operand) -> Closure:
    if isinstance(pattern, Var):
        return _var(pattern)
    if isinstance(pattern, Const):
        return _const(pattern)
    if isinstance(pattern, Op):
        return _op(pattern)
    if isinstance(pattern, Either):
        return _either(pattern)
    if isinstance(pattern, Optional):
        return _optional(pattern)
    return _repeat(pattern)


def _var(pattern: Var) -> Closure:
    name, where, optional = pattern.name, pattern.where, pattern.optional

    def match(value: Value | None, state: _State, then: Then) -> bool:
        if value is None and not optional:
            return state.fail(lambda: (f"the operand '{name}' is absent", state.root))
        if value is not None and where is not None and not where(value):
            return state.fail(lambda: (f"'{shown(value)}' does not meet the condition on '{name}'", value))
        return _bind(name, value, state, then)

    return match


def _const(pattern: Const) -> Closure:
    name, where = pattern.name, pattern.where

    def match(value: Value | None, state: _State, then: Then) -> bool:
        if value is None:
            return state.fail(lambda: (f"the operand '{name}' is absent", state.root))
        data = value.const
        if data is None:
            return state.fail(lambda: (why_not_constant(value), value, constant_hint(value)))
        if pattern.equals is not None and not is_uniform(data, pattern.equals, pattern.rtol):
            return state.fail(
                lambda: (
                    f"constant '{value.name}' is {shown_data(data)}, expected {pattern.equals:g}",
                    value,
                    f"would apply if '{value.name}' were {pattern.equals:g}",
                )
            )
        if where is not None and not where(data):
            return state.fail(lambda: (f"constant '{value.name}' ({shown_data(data)}) does not fit as '{name}'", value))
        return _bind(name, value, state, then)

    return match


def _bind(name: str, value: Value | None, state: _State, then: Then) -> bool:
    if name in state.values:
        known = state.values[name]
        if known is value or equal_constants(known, value):
            return then()
        return state.fail(
            lambda: (f"'{shown(known)}' and '{shown(value)}' are not the same value ('{name}')", value or known)
        )
    state.values[name] = value
    if then():
        return True
    del state.values[name]
    return False


def _op(pattern: Op, overrides: Mapping[int, Closure] | None = None) -> Closure:
    """``overrides`` replaces the closures of some operands."""
    node_closure = _node_closure(pattern, overrides)
    ops, result = frozenset(pattern.ops), pattern.result

    def match(value: Value | None, state: _State, then: Then) -> bool:
        node = None if value is None else value.producer
        if node is None or value is None or node.op not in ops:
            return state.fail(lambda: (f"{where_from(value)}, expected {one_of(pattern.ops)}", value))
        if value.index != result:
            return state.fail(
                lambda: (f"'{value.name}' is result {value.index} of {node.label}, expected {result}", value)
            )
        return node_closure(node, state, then)

    return match


def _node_closure(pattern: Op, overrides: Mapping[int, Closure] | None = None) -> NodeClosure:
    ops, name, attrs, shared, where = frozenset(pattern.ops), pattern.name, pattern.attrs, pattern.shared, pattern.where
    replaced = overrides or {}
    closures = [replaced[i] if i in replaced else _closure(operand) for i, operand in enumerate(pattern.inputs)]
    ranks = [0 if i in replaced else _rank(operand) for i, operand in enumerate(pattern.inputs)]
    order = sorted(range(len(closures)), key=ranks.__getitem__)
    plain = [(i, closures[i]) for i in order]
    swapped = [(1 - i, closures[i]) for i in order] if len(closures) == 2 else []
    scalars = [i for i, operand in enumerate(pattern.inputs) if _is_scalar(operand)]
    count = len(closures)

    def match(node: Node, state: _State, then: Then) -> bool:
        if node.op not in ops:
            return state.fail(lambda: (f"{node.label} is not {one_of(pattern.ops)}", node))
        if name and state.named.get(name, node) is not node:
            other = state.named[name]
            return state.fail(lambda: (f"{node.label} and {other.label} are not the same node", node))
        if where is not None and not where(node):
            return state.fail(lambda: (f"{node.label} does not meet the condition on it", node))
        for attribute, wanted in attrs:
            found = attribute_of(node, attribute)
            if not fits(found, wanted):
                # Not a loop that goes on: the lambda is the last thing that this iteration makes.
                return state.fail(lambda: (attribute_reason(node, attribute, found, wanted), node))  # noqa: B023
        inputs = node.inputs
        if len(inputs) > count and not pattern.open_inputs and any(v is not None for v in inputs[count:]):
            return state.fail(lambda: (f"{node.label} has {len(inputs)} operands, expected {count}", node))

        new_node, new_name = node not in state.nodes, bool(name) and name not in state.named
        new_shared = shared and node not in state.shared
        if new_node:
            state.nodes[node] = True
        if new_name:
            state.named[name] = node
        if new_shared:
            state.shared.add(node)
        if _operands(node, plain, scalars, state, then):
            return True
        if swapped and node.op in COMMUTATIVE and len(inputs) == 2:
            if _operands(node, swapped, [1 - i for i in scalars], state, then):
                return True
        if new_node:
            del state.nodes[node]
        if new_name:
            del state.named[name]
        if new_shared:
            state.shared.discard(node)
        return False

    return match


def _prefilter(pattern: Op, size: int) -> Prefilter:
    """A cheap test that a root must pass for a match or a telling miss: it meets its condition, and enough of its
    operands are what the pattern begins with there. ``size`` is that of the matcher.
    """
    where, test = pattern.where, _operand_test(pattern, size)
    if where is None:
        return test or (lambda node: True)
    return where if test is None else lambda node: test(node) and where(node)


def _operand_test(pattern: Op, size: int) -> Prefilter | None:
    """True where operands have the right producers, and they leave room for as many nodes as a telling miss has; if the
    pattern names no producer, where there is a constant.
    """
    wanted = [(i, _beginnings(operand), most_nodes(operand)) for i, operand in enumerate(pattern.inputs)]
    anywhere = 1 + sum(most for _, ops, most in wanted if not ops)
    wanted = [entry for entry in wanted if entry[1]]
    constants = [i for i, operand in enumerate(pattern.inputs) if isinstance(operand, Const)]
    least = max(_telling_depth(size), anywhere + 1)

    def produced(node: Node) -> bool:
        inputs, either_order, nodes = node.inputs, node.op in COMMUTATIVE, anywhere
        for index, ops, most in wanted:
            for value in inputs if either_order else inputs[index : index + 1]:
                if value is not None and value.producer is not None and value.producer.op in ops:
                    nodes += most
                    break
        return nodes >= least

    def constant(node: Node) -> bool:
        inputs = node.inputs
        for value in inputs if node.op in COMMUTATIVE else inputs[constants[0] : constants[0] + 1]:
            if value is not None and value.const is not None:
                return True
        return False

    if wanted:
        return produced
    return constant if constants and all(isinstance(operand, (Const, Var)) for operand in pattern.inputs) else None


def _telling_depth(size: int) -> int:
    """The least depth of a miss that may be worth telling."""
    return max(2, -(-size // 2))


def _beginnings(operand: Operand) -> frozenset[str]:
    """The operators that a value which fits comes from; empty if it may be anything."""
    if isinstance(operand, Op):
        return frozenset(operand.ops)
    if isinstance(operand, Either):
        each = [_beginnings(alternative) for alternative in operand.alternatives]
    elif isinstance(operand, Optional):
        each = [frozenset(operand.inner.ops), _beginnings(operand.inner.inputs[operand.through])]
    elif isinstance(operand, Repeat):
        each = [frozenset(operand.step.ops), *([] if operand.low else [_beginnings(operand.base)])]
    else:
        return frozenset()
    return frozenset().union(*each) if all(each) else frozenset()


def _rank(operand: Operand) -> int:
    """Structure first: it rejects fastest, and a failure after it tells more."""
    return 2 if isinstance(operand, Var) else 1 if isinstance(operand, Const) else 0


def _operands(
    node: Node, closures: Sequence[tuple[int, Closure]], scalars: Sequence[int], state: _State, then: Then
) -> bool:
    inputs, total = node.inputs, len(closures)
    if not total:
        return then()

    def at(step: int) -> bool:
        if step == total:
            for index in scalars:
                value = inputs[index] if index < len(inputs) else None
                if value is not None and enlarges(node, index):
                    return state.fail(
                        lambda: (f"constant '{value.name}' may enlarge the result of {node.label}", value)  # noqa: B023
                    )
            return then()
        index, closure = closures[step]
        return closure(inputs[index] if index < len(inputs) else None, state, lambda: at(step + 1))

    return at(0)


def _either(pattern: Either) -> Closure:
    closures = [_closure(alternative) for alternative in pattern.alternatives]

    def match(value: Value | None, state: _State, then: Then) -> bool:
        for closure in closures:
            if closure(value, state, then):
                return True
        return False

    return match


def _optional(pattern: Optional) -> Closure:
    present, absent = _closure(pattern.inner), _closure(pattern.inner.inputs[pattern.through])

    def match(value: Value | None, state: _State, then: Then) -> bool:
        return present(value, state, then) or absent(value, state, then)

    return match


def _repeat(pattern: Repeat) -> Closure:
    base, name, through = _closure(pattern.base), pattern.name, pattern.through

    def level(count: int) -> Closure:
        """Matches the rest of a chain that has ``count`` steps so far."""
        step = None
        if count < pattern.high:
            local = localised(pattern.step, f"{name}[{count}]", through)
            step = _op(local, {through: level(count + 1)})

        def match(value: Value | None, state: _State, then: Then) -> bool:
            if step is not None and step(value, state, then):
                return True
            if count < pattern.low:
                return state.fail(lambda: (f"'{name}' has {count} steps here, expected at least {pattern.low}", value))
            return base(value, state, then)

        return match

    return level(0)


# ---- conditions ---------------------------------------------------------------------------------------------------


def _inside_is_private(state: _State) -> bool:
    """True if nobody outside the match needs a value inside it, except those of ``shared`` nodes."""
    for node in state.nodes:
        if node is state.root or node in state.shared:
            continue
        for value in node.outputs:
            explain = _outside_use(value, state.nodes)
            if explain is not None:
                # Everything else fits, so this is the reason to tell, whatever failed at the same depth before.
                state.note(explain)
                return False
    return True


def _outside_use(value: Value, nodes: dict[Node, bool]) -> Explain | None:
    if value.is_output:
        return lambda: (f"'{value.name}' is also a graph output", value, private_hint(value))
    for consumer in value._uses:
        if consumer[0] not in nodes:
            return lambda: (f"'{value.name}' is also used by {consumer[0].label}", value, private_hint(value))
    return None


def _is_scalar(operand: Operand) -> bool:
    if isinstance(operand, Either):
        return any(_is_scalar(o) for o in operand.alternatives)
    return isinstance(operand, Const) and operand.equals is not None
