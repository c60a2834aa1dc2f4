"""Choose one offer for every node so that kernels and reorders together cost least.

A layout is only worth what its neighbours make of it, so the choice is joint: a first pass in topological order
follows the producers, then sweeps re-choose each node given all its neighbours until nothing changes. Reorders are
priced as the traffic they cause, once for each (value, layout), since consumers share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autofusion.errors import KernelError
from autofusion.ir.graph import NOT_CONVERTED, Graph, Node, Value
from autofusion.kernels.contract import PLAIN, KernelPack, Layout, Offer, storable
from autofusion.lowering.concat import ConcatInPlace, concats_in_place
from autofusion.lowering.views import Alias, aliases
from autofusion.offers.ask import Offers, PackRefusal

_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a node, with its price in seconds: an offer of ``pack``, or one that needs no kernel."""

    pack: KernelPack | None
    way: Offer | Alias | ConcatInPlace
    seconds: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate chosen for a node; kernels that lost, with their seconds, best first; packs that refused, with
    their reasons.
    """

    chosen: Candidate
    losers: tuple[tuple[str, float], ...]
    refusals: tuple[PackRefusal, ...]


def candidates(node: Node, offers: Offers) -> tuple[list[Candidate], tuple[PackRefusal, ...]]:
    """Every way to run ``node``, cheapest first, and the refusals."""
    answer = offers.ask(node)
    found = [Candidate(*priced) for priced in answer.offers]
    found += [Candidate(None, alias, 0.0) for alias in aliases(node, offers.blocks)]
    found += [Candidate(None, concat, 0.0) for concat in concats_in_place(node, offers.blocks)]
    return sorted(found, key=lambda c: c.seconds), answer.refusals


def _label(candidate: Candidate) -> str:
    return f"{candidate.pack.name if candidate.pack is not None else 'core'}:{candidate.way.kernel}"


_NOTHING: Mapping[Node, Choice] = {}


class Selector:
    """Chooses among what ``offers`` has for each node of one graph; ``asked`` is what packs get to see of a node."""

    def __init__(
        self,
        graph: Graph,
        offers: Offers,
        known: Mapping[Node, Choice] = _NOTHING,
        asked: Callable[[Node], Node] = lambda node: node,
    ) -> None:
        self._nodes = graph.nodes
        self._known = known
        self._target = offers.target
        self._candidates: dict[Node, list[Candidate]] = {}
        self._refusals: dict[Node, tuple[PackRefusal, ...]] = {}
        self._chosen: dict[Node, Candidate] = {}
        self._outputs = set(graph.outputs)
        for node in self._nodes:
            if node in known:
                self._candidates[node] = [known[node].chosen]
            else:
                self._candidates[node], self._refusals[node] = candidates(asked(node), offers)
        missing = [node for node, found in self._candidates.items() if not found]
        if missing:
            raise KernelError(self._nothing_runs(missing))

    def _nothing_runs(self, nodes: Sequence[Node]) -> str:
        """What to say about nodes that no kernel runs: the first one at length, then every other operator once."""
        first = nodes[0]
        why = [str(refusal) for refusal in self._refusals[first]] or ["no kernel pack is installed"]
        reason = first.attr(NOT_CONVERTED)
        if reason:
            why.insert(0, f"it was not converted to standard operators, since {reason}")
        text = f"no kernel runs {first.label} ({first.op}): {'; '.join(why)}"
        others: dict[str, list[Node]] = {}
        for node in nodes:
            if node.op != first.op:
                others.setdefault(node.op, []).append(node)
        listed = [
            f"{op} ({len(found)} nodes)" if len(found) > 1 else f"{op} ('{found[0].name}')"
            for op, found in others.items()
        ]
        return text + (f". No kernel runs these operators either: {', '.join(listed)}" if listed else "")

    def run(self) -> dict[Node, Choice]:
        """The choice for every node, those ``known`` as they are."""
        for node in self._nodes:
            self._choose(node, consumers=False)
        for _ in range(_SWEEPS if len(self._known) < len(self._nodes) else 0):
            before = dict(self._chosen)
            for node in (*reversed(self._nodes), *self._nodes):
                self._choose(node, consumers=True)
            if before == self._chosen:
                break
        return {
            node: self._known.get(node)
            or Choice(
                self._chosen[node],
                tuple((_label(c), c.seconds) for c in self._candidates[node] if c is not self._chosen[node]),
                self._refusals[node],
            )
            for node in self._nodes
        }

    def _choose(self, node: Node, *, consumers: bool) -> None:
        options = self._candidates[node]
        if len(options) == 1:
            self._chosen[node] = options[0]
            return
        costs = [(c.seconds + self._edges(node, c, consumers), index) for index, c in enumerate(options)]
        self._chosen[node] = options[min(costs)[1]]

    def _edges(self, node: Node, candidate: Candidate, consumers: bool) -> float:
        total = 0.0
        for value in dict.fromkeys(node.inputs):
            if value is None or value.const is not None:
                continue
            wanted = {
                o.layout for v, o in zip(node.inputs, candidate.way.inputs, strict=True) if v is value and o is not None
            }
            have = self._layout(value)
            total += sum(self._reorder_seconds(value) for w in wanted if w != have)
        if consumers:
            for value, operand in zip(node.outputs, candidate.way.outputs, strict=True):
                readers = {self._wanted(user, i) for user, i in value.uses}
                if value in self._outputs:
                    readers.add(PLAIN)
                total += sum(self._reorder_seconds(value) for w in readers if w is not None and w != operand.layout)
        return total

    def _layout(self, value: Value) -> Layout:
        if value.producer is None or value.producer not in self._chosen:
            return PLAIN
        return self._chosen[value.producer].way.outputs[value.index].layout

    def _wanted(self, user: Node, index: int) -> Layout | None:
        chosen = self._chosen.get(user)
        operand = chosen.way.inputs[index] if chosen is not None else None
        return None if operand is None else operand.layout

    def _reorder_seconds(self, value: Value) -> float:
        if not storable(value.type):
            return 0.0
        return 2 * value.type.nbytes / self._target.bandwidth_l3 + 1e-6
