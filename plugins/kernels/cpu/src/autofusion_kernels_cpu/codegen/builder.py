"""A small builder of LLVM IR text: modules, functions, structured control flow, memory.

Why text and no middle-end: the builder writes the instructions that the kernel means, LLVM only selects, schedules and
allocates registers. That keeps a kernel's inner block what its author wrote, and compilation at a few milliseconds.

A kernel is a function with one fixed signature, `void(ptr buffers, ptr params, i64 thread, i64 threads)`, where
`buffers` points to an array of addresses and `params` to an array of i64. Everything that depends on sizes is a
parameter; only structure is in the code::

    module = Module(isa)
    with module.kernel("scale", buffers=["x", "y"], params=["n", "factor"]) as f:
        x, y, n = f.buffer["x"], f.buffer["y"], f.param["n"]
        factor = f.splat(f.float_bits(f.param["factor"]), f.lanes)
        first, last = f.share(n)                                   # this thread's part of 0..n
        with f.vector_loop(first, last) as loop:                   # whole vectors, then one masked rest
            v = f.load(x, loop.index, mask=loop.mask)
            f.store(v * factor, y, loop.index, mask=loop.mask)
    address = jit.kernel(module)                                   # autofusion_kernels_cpu.native.jit

Loops carry values explicitly and run zero times if the range is empty::

    with f.loop(0, n, step=f.lanes, carry=[f.zero]) as loop:
        (total,) = loop.carried
        loop.next(total + f.load(x, loop.index))
    total = f.reduce("add", loop.results[0])

`f.when(condition)` guards a block; `f.branch(condition, then, otherwise)` chooses between two and merges the values
that they return.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from autofusion_kernels_cpu.codegen.arithmetic import Arithmetic
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.codegen.values import F32, I1, I32, I64, PTR, Operandish, Type, Value


class Module:
    """IR under construction: kernels (visible outside) and internal functions."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.functions: list[Function] = []
        self.declarations: dict[str, None] = {}

    def kernel(self, name: str, buffers: Sequence[str], params: Sequence[str] = ()) -> Function:
        """A function with the kernel signature; `f.buffer[...]` and `f.param[...]` are loaded on entry, in the given
        order.
        """
        f = Function(self, name, [("buffers", PTR), ("params", PTR), ("thread", I64), ("threads", I64)], exported=True)
        f.buffer = {b: f.load(f.args["buffers"], i, PTR) for i, b in enumerate(buffers)}
        f.param = {p: f.load(f.args["params"], i, I64) for i, p in enumerate(params)}
        return f

    def function(
        self, name: str, args: Sequence[tuple[str, Type]], result: Type | None = None, noalias: bool = True
    ) -> Function:
        """An internal function that is called, never inlined: `f.args[...]`, `f.ret(value)`, `g.call(f, ...)`.

        `noalias` promises that no two pointer arguments lead to memory that one of them writes.
        """
        return Function(self, name, args, result=result, noalias=noalias)

    @property
    def exports(self) -> list[str]:
        return [f.name for f in self.functions if f.exported]

    def text(self, suffix: str = "") -> str:
        """The IR. `suffix` is appended to exported names, so that equal names of different modules can live in one
        process.
        """
        parts = list(self.declarations)
        parts += [f.text(suffix) for f in self.functions]
        parts.append(f'attributes #0 = {{ nounwind "prefer-vector-width"="{self.isa.bytes * 8}" }}')
        return "\n".join(parts) + "\n"


class Loop:
    """A loop being built: `index`, `carried` values of this trip, `next(...)` for the following one, `results` after
    the loop.
    """

    def __init__(self, index: Value, carried: tuple[Value, ...], mask: Value | None = None) -> None:
        self.index, self.carried, self.mask = index, carried, mask
        self.results: tuple[Value, ...] = ()
        self.following: tuple[Value, ...] | None = None

    def next(self, *values: Value) -> None:
        """Set the carried values of the next trip (once, before the body ends)."""
        self.following = values


class Function(Arithmetic):
    """One LLVM function under construction."""

    def __init__(
        self,
        module: Module,
        name: str,
        args: Sequence[tuple[str, Type]],
        result: Type | None = None,
        exported: bool = False,
        noalias: bool = True,
    ) -> None:
        self.module, self.name, self.result, self.exported = module, name, result, exported
        self.isa = module.isa
        self.lanes = module.isa.lanes
        self.f32 = F32.of(self.lanes)
        """The vector of float32 that fills a register."""
        self.i32 = I32.of(self.lanes)
        self.mask_type = I1.of(self.lanes)
        self.zero = self.const(0.0, self.f32)
        self.args = {n: Value(self, f"%{n}", t) for n, t in args}
        self.buffer: dict[str, Value] = {}
        self.param: dict[str, Value] = {}
        self._signature = ", ".join(f"{'ptr noalias' if t == PTR and noalias else t} %{n}" for n, t in args)
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._block = "body"
        self._closed = False
        module.functions.append(self)

    @property
    def thread(self) -> Value:
        """This thread's number, from 0."""
        return self.args["thread"]

    @property
    def threads(self) -> Value:
        return self.args["threads"]

    @property
    def native_nan_max(self) -> bool:
        return not self.isa.is_x86

    @property
    def native_saturation(self) -> bool:
        return not self.isa.is_x86

    def __enter__(self) -> Function:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._closed:
            self.ret()

    def text(self, suffix: str = "") -> str:
        linkage = "" if self.exported else "internal "
        name = self.name + suffix if self.exported else self.name
        attributes = "#0" if self.exported else "#0 noinline"
        head = f'define {linkage}{self.result or "void"} @"{name}"({self._signature}) {attributes} {{'
        return "\n".join([head, "entry:", *self._entry, " br label %body", "body:", *self._lines, "}"])

    # --- raw emission ------------------------------------------------------------------------------
    def emit(self, text: str, type_: Type) -> Value:
        """Append an instruction and return its value."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f" {name} = {text}")
        return Value(self, name, type_)

    def do(self, text: str) -> None:
        """Append an instruction without a value."""
        self._lines.append(" " + text)

    def declare(self, text: str) -> None:
        self.module.declarations[f"declare {text}"] = None

    def intrinsic(self, name: str, result: Type, *args: Value, overload: Type | None = None) -> Value:
        """Call `llvm.<name>`, overloaded on the result type unless `overload` differs."""
        if overload is None:
            mangled = result.mangled
        else:
            mangled = overload.mangled if name.startswith("vector.reduce") else f"{result.mangled}.{overload.mangled}"
        self.declare(f"{result} @llvm.{name}.{mangled}({', '.join(str(a.type) for a in args)})")
        flags = "reassoc " if name in ("vector.reduce.fadd", "vector.reduce.fmul") else ""
        return self.emit(f"call {flags}{result} @llvm.{name}.{mangled}({', '.join(map(repr, args))})", result)

    def call(self, function: Function, *args: Operandish) -> Value | None:
        """Call another function of this module."""
        values = [self.as_value(x, t.type) for x, t in zip(args, function.args.values(), strict=True)]
        text = f'call {function.result or "void"} @"{function.name}"({", ".join(map(repr, values))})'
        if function.result is None:
            self.do(text)
            return None
        return self.emit(text, function.result)

    def ret(self, value: Value | None = None) -> None:
        self.do(f"ret {value!r}" if value is not None else "ret void")
        self._closed = True

    def freeze(self, x: Value) -> Value:
        """The same value, about whose origin LLVM may not reason."""
        return self.emit(f"freeze {x}", x.type)

    # --- memory ------------------------------------------------------------------------------------
    def at(self, pointer: Value, index: Operandish, element: Type = F32) -> Value:
        """The address of element `index` after `pointer`."""
        offset = self.as_value(index, I64)
        if offset.constant == 0:
            return pointer
        return self.emit(f"getelementptr {element.element}, {pointer}, {offset}", PTR)

    def load(
        self,
        pointer: Value,
        index: Operandish = 0,
        type_: Type | None = None,
        mask: Value | None = None,
        fill: Operandish = 0,
    ) -> Value:
        """Load `type_` (a float32 vector if None) at element `index`. No alignment beyond the element's is assumed.

        Lanes outside `mask` are not touched in memory and read as `fill`.
        """
        type_ = type_ or self.f32
        address = self.at(pointer, index, type_.element)
        if mask is None:
            return self.emit(f"load {type_}, {address}, align {type_.element.size}", type_)
        rest = self.as_value(fill, type_)
        name = f"{type_} @llvm.masked.load.{type_.mangled}.p0"
        self.declare(f"{name}(ptr, i32, {mask.type}, {type_})")
        return self.emit(f"call {name}({address}, i32 {type_.element.size}, {mask}, {rest})", type_)

    def store(
        self, value: Value, pointer: Value, index: Operandish = 0, mask: Value | None = None, streaming: bool = False
    ) -> None:
        """Store at element `index`; lanes outside `mask` are left as they are. `streaming` goes past the caches and
        needs vector alignment.
        """
        address = self.at(pointer, index, value.type.element)
        if mask is None:
            hint = (
                f"align {value.type.size}, !nontemporal !{{i32 1}}" if streaming else f"align {value.type.element.size}"
            )
            self.do(f"store {value}, {address}, {hint}")
            return
        name = f"@llvm.masked.store.{value.type.mangled}.p0"
        self.declare(f"void {name}({value.type}, ptr, i32, {mask.type})")
        self.do(f"call void {name}({value}, {address}, i32 {value.type.element.size}, {mask})")

    def broadcast(self, pointer: Value, index: Operandish = 0, element: Type = F32, lanes: int = 0) -> Value:
        """The scalar at element `index` in every lane."""
        return self.splat(self.load(pointer, index, element), lanes or self.lanes)

    def gather(
        self, pointer: Value, indices: Value, element: Type = F32, mask: Value | None = None, fill: Operandish = 0
    ) -> Value:
        """The elements at `indices` (a vector of i32 or i64)."""
        lanes = indices.type.lanes
        result, pointers, masks = element.of(lanes), PTR.of(lanes), I1.of(lanes)
        addresses = self.emit(f"getelementptr {element}, {pointer}, {indices}", pointers)
        chosen = mask if mask is not None else self.const(True, masks)
        rest = self.as_value(fill, result)
        name = f"{result} @llvm.masked.gather.{result.mangled}.{pointers.mangled}"
        self.declare(f"{name}({pointers}, i32, {masks}, {result})")
        return self.emit(f"call {name}({addresses}, i32 {element.size}, {chosen}, {rest})", result)

    def prefetch(self, pointer: Value, write: bool = False, locality: int = 2) -> None:
        """Ask for the cache line at `pointer`; locality 3 is the first-level cache, 2 the second."""
        self.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(f"call void @llvm.prefetch.p0({pointer}, i32 {int(write)}, i32 {locality}, i32 1)")

    def stack(self, elements: int, element: Type = F32) -> Value:
        """Memory of this call, aligned to 64 bytes, not initialised. A few KiB at most."""
        self._count += 1
        name = f"%s{self._count}"
        self._entry.append(f" {name} = alloca [{elements} x {element}], align 64")
        return Value(self, name, PTR)

    def tail_mask(self, count: Operandish, lanes: int = 0) -> Value:
        """The mask whose lanes i < count are set; any count, also negative or beyond the lanes."""
        lanes = lanes or self.lanes
        if not isinstance(count, Value):
            return self.const_vector([i < count for i in range(lanes)], I1)
        number = self.convert(self.min(self.max(count, 0), lanes), I32) if count.type == I64 else count
        return self.lt(self.iota(lanes), self.splat(number, lanes))

    # --- control flow ------------------------------------------------------------------------------
    def _label(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _start(self, label: str) -> None:
        self._block = label
        self._lines.append(f"{label}:")

    def _phi(self, type_: Type, incoming: Sequence[tuple[Value, str]]) -> Value:
        return self.emit(f"phi {type_} " + ", ".join(f"[ {v.text}, %{b} ]" for v, b in incoming), type_)

    @contextlib.contextmanager
    def loop(
        self,
        start: Operandish,
        stop: Operandish,
        step: Operandish = 1,
        carry: Sequence[Value] = (),
        at_least_once: bool = False,
        opaque: bool = False,
    ) -> Iterator[Loop]:
        """`for index in range(start, stop, step)` over i64 with a positive step; see the module's description.

        `at_least_once` promises start < stop and saves the test before the first trip. `opaque` hides from LLVM how
        the index and the carried pointers advance: it then leaves the addressing as it is written, and does not spend
        most of the compile time on rewriting it (its loop strength reduction is cubic in large bodies).
        """
        first, last, stride = (self.as_value(x, I64) for x in (start, stop, step))
        before, head, after = self._block, self._label("loop"), self._label("end")
        if at_least_once:
            self.do(f"br label %{head}")
        else:
            self.do(f"br i1 {self.lt(first, last).text}, label %{head}, label %{after}")
        self._start(head)
        mark = len(self._lines)
        index = self.emit("", I64)
        carried = tuple(self.emit("", v.type) for v in carry)
        loop = Loop(index, carried)
        yield loop
        following = loop.following if loop.following is not None else carried
        if len(following) != len(carried) or any(a.type != b.type for a, b in zip(following, carried, strict=True)):
            raise TypeError(
                f"loop carries {[str(v.type) for v in carried]}, but next() got {[str(v.type) for v in following]}"
            )
        step_index = index + stride
        if opaque:
            step_index = self.freeze(step_index)
            following = tuple(self.freeze(v) if v.type == PTR else v for v in following)
        again = self.lt(step_index, last)
        latch = self._block
        self.do(f"br i1 {again.text}, label %{head}, label %{after}")
        pairs = [(index, first, step_index), *zip(carried, carry, following, strict=True)]
        for line, (phi, initial, update) in enumerate(pairs, mark):
            self._lines[line] = (
                f" {phi.text} = phi {phi.type} [ {initial.text}, %{before} ], [ {update.text}, %{latch} ]"
            )
        self._start(after)
        if at_least_once:
            loop.results = tuple(following)
        else:
            loop.results = tuple(
                self._phi(v.type, [(a, before), (v, latch)]) for a, v in zip(carry, following, strict=True)
            )

    @contextlib.contextmanager
    def vector_loop(self, start: Operandish, stop: Operandish, lanes: int = 0) -> Iterator[Loop]:
        """Cover `start..stop` by vectors; `loop.mask` is full except on the last trip if it is not whole.

        The body is built once and every access is masked: on AVX-512 that costs nothing, elsewhere little. It carries
        no values.
        """
        lanes = lanes or self.lanes
        last = self.as_value(stop, I64)
        with self.loop(start, stop, step=lanes) as loop:
            loop.mask = self.tail_mask(last - loop.index, lanes)
            yield loop

    @contextlib.contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """A block that runs if the condition holds."""
        inside, after = self._label("then"), self._label("end")
        self.do(f"br i1 {condition.text}, label %{inside}, label %{after}")
        self._start(inside)
        yield
        self.do(f"br label %{after}")
        self._start(after)

    def branch(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | None],
        otherwise: Callable[[], Sequence[Value] | None],
    ) -> list[Value]:
        """Run one of two blocks; each returns values of the same types, the merged ones are returned."""
        labels = self._label("then"), self._label("else")
        after = self._label("end")
        self.do(f"br i1 {condition.text}, label %{labels[0]}, label %{labels[1]}")
        ends: list[tuple[Sequence[Value], str]] = []
        for label, body in zip(labels, (then, otherwise), strict=True):
            self._start(label)
            values = body() or ()
            ends.append((values, self._block))
            self.do(f"br label %{after}")
        self._start(after)
        (a, a_block), (b, b_block) = ends
        return [self._phi(x.type, [(x, a_block), (y, b_block)]) for x, y in zip(a, b, strict=True)]

    def share(self, total: Operandish) -> tuple[Value, Value]:
        """This thread's part [first, last) of 0..total, balanced to one."""
        amount = self.as_value(total, I64)
        return self.udiv(amount * self.thread, self.threads), self.udiv(amount * (self.thread + 1), self.threads)
