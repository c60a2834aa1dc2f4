"""Lower a graph with static shapes to a plan: choose offers and layouts, insert reorders, lay out memory."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autofusion.errors import KernelError
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import (
    PLAIN,
    Buffer,
    BufferKind,
    KernelPack,
    Layout,
    Offer,
    Operand,
    TensorView,
    constant_view,
    storable,
)
from autofusion.lowering import memory
from autofusion.lowering.concat import ConcatInPlace
from autofusion.lowering.plan import REORDER, Border, OutputSpec, OwnGraph, Plan, Step
from autofusion.lowering.select import Choice, Selector
from autofusion.lowering.storage import Root, Stored, external_buffer, fresh
from autofusion.lowering.views import Alias
from autofusion.offers.ask import Offers


def lower(
    graph: Graph, offers: Offers, choices: Mapping[Node, Choice] | None = None, own_graph: OwnGraph | None = None
) -> Plan:
    """Return the plan of ``graph`` (sorted, all operands static or run-time objects, results static or not), with the
    kernels of ``choices``, which are made if they are not given. For ``own_graph`` see ``Plan``.

    Raises KernelError if no pack runs some node.
    """
    if choices is None:
        choices = Selector(graph, offers).run()
    plan = _Lowering(graph, offers, choices).run()
    plan.own_graph = own_graph
    return plan


@dataclass(slots=True)
class _Draft:
    """A step whose buffers are not placed yet."""

    node: Node
    pack: KernelPack
    offer: Offer
    inputs: list[Stored | TensorView | None]
    outputs: list[Stored]
    objects: list[tuple[int, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    scratch: Root | None = None
    choice: Choice | None = None
    seconds: float = 0.0


class _Lowering:
    def __init__(self, graph: Graph, offers: Offers, choices: Mapping[Node, Choice]) -> None:
        self.graph, self.offers, self.choices = graph, offers, choices
        self.primary: dict[Value, Stored] = {}
        self.further: dict[tuple[Value, Layout], Stored] = {}
        self.drafts: list[_Draft] = []
        self.roots: list[Root] = []
        self.external: list[TensorType] = []
        self.views: list[tuple[Node, str]] = []

    def run(self) -> Plan:
        input_slots = [self._graph_input(v) for v in self.graph.inputs]
        for node in self.graph.nodes:
            self._lower_node(node, self.choices[node])
        outputs = [self._graph_output(v, n) for v, n in zip(self.graph.outputs, self.graph.output_names, strict=True)]
        self._share_in_place()
        arena, peak, borders = self._place()
        steps = [self._step(draft) for draft in self.drafts]
        return Plan(self.graph, steps, list(self.external), input_slots, outputs, arena, peak, borders, self.views)

    # ---- graph inputs and outputs ----------------------------------------------------------------------------

    def _graph_input(self, value: Value) -> int:
        if not storable(value.type):
            return -1
        self.primary[value] = self._external(value.name, value.type)
        return len(self.external) - 1

    def _external(self, name: str, type_: TensorType) -> Stored:
        stored = fresh(name, type_, PLAIN, bordered=False, slot=len(self.external))
        self.external.append(type_)
        self.roots.append(stored.root)
        return stored

    def _graph_output(self, value: Value, name: str) -> OutputSpec:
        if value.const is not None:
            return OutputSpec(name, value.type, constant=value.const)
        stored = self.primary.get(value)
        if stored is None:
            return OutputSpec(name, value.type, result=value.name)
        root = stored.root
        own = stored.own_root is root and root.slot < 0 and root.layout == PLAIN and not any(root.border)
        if own and value.producer is not None:
            root.slot = len(self.external)
            self.external.append(stored.type)
        else:
            copy = self._external(name, stored.type)
            self._copy(value, stored, copy)
            root = copy.root
        return OutputSpec(name, value.type, slot=root.slot)

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _lower_node(self, node: Node, choice: Choice) -> None:
        way = choice.chosen.way
        if isinstance(way, Alias):
            self._alias(node, way)
        elif isinstance(way, ConcatInPlace):
            self._concat(node, way)
        else:
            self._kernel(node, way, choice)

    def _kernel(self, node: Node, offer: Offer, choice: Choice) -> None:
        pack = choice.chosen.pack
        assert pack is not None
        draft = _Draft(node, pack, offer, [], [], choice=choice, seconds=choice.chosen.seconds)
        for index, (value, operand) in enumerate(zip(node.inputs, offer.inputs, strict=True)):
            if value is None:
                draft.inputs.append(None)
            elif value.const is not None:
                draft.inputs.append(constant_view(value.const))
            elif value not in self.primary:
                draft.inputs.append(None)
                draft.objects.append((index, value.name))
            else:
                if operand is None:
                    raise KernelError(
                        f"kernel '{offer.kernel}' of pack '{pack.name}' states no layout "
                        f"for operand {index} of {node.label}"
                    )
                draft.inputs.append(self._form(value, operand))
        static = all(storable(v.type) for v in node.outputs)
        if static:
            for value, operand in zip(node.outputs, offer.outputs, strict=True):
                stored = fresh(value.name, value.tensor, operand.layout, bordered=operand.bordered)
                self.primary[value] = stored
                self.roots.append(stored.root)
                draft.outputs.append(stored)
        else:
            draft.results = [v.name for v in node.outputs]
        if offer.scratch:
            draft.scratch = self._scratch(offer.scratch)
        self._append(draft)

    def _append(self, draft: _Draft) -> None:
        number = len(self.drafts)
        for stored in (*draft.inputs, *draft.outputs):
            if isinstance(stored, Stored):
                stored.root.touch(number)
        if draft.scratch is not None:
            draft.scratch.touch(number)
        self.drafts.append(draft)

    def _scratch(self, nbytes: int) -> Root:
        root = Root(TensorType(np.dtype(np.uint8), (nbytes,)), PLAIN, bordered=False)
        self.roots.append(root)
        return root

    def _alias(self, node: Node, alias: Alias) -> None:
        value, operand = node.inputs[0], alias.inputs[0]
        assert value is not None and operand is not None
        source = self._form(value, operand)
        regrouped = operand.layout != alias.outputs[0].layout
        if regrouped and any(source.root.border):
            # The other reading of the memory only holds without a border in between.
            source = self._reordered(value, operand.layout, ())
        if regrouped or source.layout == PLAIN:
            source.root.pinned = True
        types = [v.tensor for v in node.outputs]
        for index, result in enumerate(node.outputs):
            derive = functools.partial(_derived, alias, types, index)
            self.primary[result] = Stored(result.name, result.tensor, alias.outputs[index].layout, None, source, derive)
        source.root.shared = True
        self.views.append((node, "view of its operand"))

    def _concat(self, node: Node, concat: ConcatInPlace) -> None:
        layout = concat.outputs[0].layout
        result = fresh(node.output.name, node.output.tensor, layout, bordered=layout.block > 0)
        self.roots.append(result.root)
        self.primary[node.output] = result
        result.root.shared = True
        copied = 0
        for index, value in enumerate(node.inputs):
            assert value is not None
            type_ = value.tensor
            derive = functools.partial(_piece, concat, index, type_)
            stored = self.primary.get(value)
            if stored is not None and self._placeable(stored, result, layout) and value not in node.inputs[:index]:
                stored.place(result, derive)
                continue
            piece = Stored(f"{value.name}@{node.name}", type_, layout, None, result, derive)
            if stored is None:
                assert value.const is not None, f"operand '{value.name}' of {node.label} is not stored"
                self._copy_constant(value, piece)
            else:
                self._copy(value, stored, piece)
            copied += 1
        self.views.append((node, f"in place ({copied} of {len(node.inputs)} operands copied)"))

    @staticmethod
    def _placeable(stored: Stored, result: Stored, layout: Layout) -> bool:
        root = stored.root
        if stored.own_root is not root or stored.layout != layout or root.slot >= 0 or root.first < 0:
            return False
        if root.pinned and any(result.root.border):
            return False
        if any(root.border) and (result.root.pinned or not result.root.bordered):
            return False
        return not (any(result.root.border) and not root.bordered)

    # ---- layouts ---------------------------------------------------------------------------------------------

    def _form(self, value: Value, operand: Operand) -> Stored:
        """The value as ``operand`` wants it, reordered if need be."""
        stored = self.primary[value]
        bordered = any(operand.border)
        if stored.layout == operand.layout and (
            not bordered or (stored.layout.block > 0 and stored.root.can_border(operand.border))
        ):
            stored.root.widen(operand.border)
            return stored
        return self._reordered(value, operand.layout, operand.border)

    def _reordered(self, value: Value, layout: Layout, border: tuple[int, ...]) -> Stored:
        # A plain reader without a border never meets a plain form with one: it would have taken the primary.
        existing = self.further.get((value, layout))
        if (
            existing is not None
            and existing.root.can_border(border)
            and (any(border) or not any(existing.root.border) or layout.block)
        ):
            existing.root.widen(border)
            return existing
        source = self.primary[value]
        copy = fresh(f"{value.name}@{layout}", source.type, layout, bordered=True)
        self.roots.append(copy.root)
        copy.root.widen(border)
        copy.root.pinned = layout == PLAIN and not any(border)
        self._copy(value, source, copy, border)
        self.further[value, layout] = copy
        return copy

    def _copy(self, value: Value, source: Stored, copy: Stored, border: tuple[int, ...] = ()) -> None:
        self._append(self._reorder_draft(value, source, copy.type, source.layout, copy, border))

    def _copy_constant(self, value: Value, copy: Stored) -> None:
        assert value.const is not None
        self._append(self._reorder_draft(value, constant_view(value.const), copy.type, PLAIN, copy, ()))

    def _reorder_draft(
        self,
        value: Value,
        source: Stored | TensorView,
        type_: TensorType,
        layout: Layout,
        copy: Stored,
        border: tuple[int, ...],
    ) -> _Draft:
        wanted = Operand(copy.layout, border, bordered=True, strided=True)
        node = _reorder_node(value, copy)
        priced = self.offers.reorder(node, type_, Operand(layout), wanted)
        if priced is not None:
            copy.root.bordered = copy.root.bordered and priced.offer.outputs[0].bordered
            return _Draft(node, priced.pack, priced.offer, [source], [copy], seconds=priced.seconds)
        raise KernelError(f"no kernel pack copies '{value.name}' ({type_}) from layout {layout} to {copy.layout}")

    # ---- memory ----------------------------------------------------------------------------------------------

    def _share_in_place(self) -> None:
        for number, draft in enumerate(self.drafts):
            for result, operand in draft.offer.inplace:
                if result >= len(draft.outputs):
                    continue
                source, target = draft.inputs[operand], draft.outputs[result]
                if not isinstance(source, Stored) or target.own_root is None:
                    continue
                a, b = source.root, target.own_root
                exclusive = not a.shared and not b.shared and a.slot < 0 and b.slot < 0 and a.last == number
                if exclusive and a.geometry == b.geometry and a.border == b.border:
                    target.place(source, functools.partial(_same_memory, target.type))
                    a.shared = False

    def _place(self) -> tuple[int, int, tuple[Border, ...]]:
        live = [r for r in self.roots if r.first >= 0 or r.slot >= 0]
        owned = {s.root for d in self.drafts for s in (*d.inputs, *d.outputs) if isinstance(s, Stored)}
        owned |= {d.scratch for d in self.drafts if d.scratch is not None}
        for root in live:
            if root.slot >= 0:
                root.buffer = external_buffer(root)
        arena = [r for r in live if r.slot < 0 and r in owned]
        requests = [memory.request(r) for r in arena]
        offsets, size = memory.place(requests)
        changes: dict[int, int] = {}
        for root, wanted, offset in zip(arena, requests, offsets, strict=True):
            root.buffer = Buffer(BufferKind.ARENA, wanted.nbytes, offset=offset)
            changes[wanted.first] = changes.get(wanted.first, 0) + wanted.nbytes
            changes[wanted.last + 1] = changes.get(wanted.last + 1, 0) - wanted.nbytes
        alive = peak = 0
        for number in sorted(changes):
            alive += changes[number]
            peak = max(peak, alive)
        bordered = [root for root in arena if any(root.border)]
        borders = {Border(r.buffer.offset, r.type.dtype, r.stored_shape, r.border): None for r in bordered if r.buffer}
        return size, peak, tuple(borders)

    def _step(self, draft: _Draft) -> Step:
        choice = draft.choice
        scratch = None if draft.scratch is None else draft.scratch.view(draft.scratch.type)
        return Step(
            draft.node,
            draft.pack,
            draft.offer,
            tuple(s.view() if isinstance(s, Stored) else s for s in draft.inputs),
            tuple(s.view() for s in draft.outputs),
            tuple(draft.objects),
            tuple(draft.results),
            scratch,
            choice.losers if choice else (),
            choice.refusals if choice else (),
            draft.seconds,
        )


def _derived(alias: Alias, types: Sequence[TensorType], index: int, view: TensorView) -> TensorView:
    return alias.views(view, types)[index]


def _piece(concat: ConcatInPlace, index: int, type_: TensorType, view: TensorView) -> TensorView:
    return concat.piece(view, index, type_)


def _same_memory(type_: TensorType, view: TensorView) -> TensorView:
    return replace(view, type=type_)


def _reorder_node(value: Value, copy: Stored) -> Node:
    graph = Graph("reorder")
    operand = graph.add_input(value.name, value.type)
    origin = value.producer.origin if value.producer is not None else ()
    return graph.node(REORDER, [operand], outputs=[copy.type], output_names=[copy.name], name=copy.name, origin=origin)
