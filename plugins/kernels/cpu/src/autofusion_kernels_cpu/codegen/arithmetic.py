"""Arithmetic of the IR builder: one method an operation, over scalars and vectors, integers and floats alike."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion_kernels_cpu.codegen.values import F32, I1, I32, I64, Number, Operandish, Type, Value, literal, numeric

_FLOAT_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INT_COMPARE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


class Arithmetic:
    """The arithmetic half of `Function`. Operands may be Python numbers as long as one is a Value."""

    # Provided by Function.
    def emit(self, text: str, type_: Type) -> Value:
        raise NotImplementedError

    def intrinsic(self, name: str, result: Type, *args: Value, overload: Type | None = None) -> Value:
        raise NotImplementedError

    @property
    def native_nan_max(self) -> bool:
        """True if the instruction set's own max and min propagate NaN."""
        raise NotImplementedError

    @property
    def native_saturation(self) -> bool:
        """True if the instruction set's own conversions from float to integer saturate."""
        raise NotImplementedError

    # --- constants and conversions -----------------------------------------------------------------
    def const(self, number: Number, type_: Type) -> Value:
        """A constant of `type_`; a vector gets the number in every lane."""
        if type_.is_float and not isinstance(number, float):
            number = float(number)
        return Value(self, literal(number, type_), type_, number)  # type: ignore[arg-type]

    def const_vector(self, numbers: Sequence[Number], element: Type) -> Value:
        """A constant vector with the given lanes."""
        body = ", ".join(f"{element} {literal(n, element)}" for n in numbers)
        return Value(self, f"<{body}>", element.of(len(numbers)))  # type: ignore[arg-type]

    def poison(self, type_: Type) -> Value:
        """A value nobody will look at."""
        return Value(self, "poison", type_)  # type: ignore[arg-type]

    def as_value(self, x: Operandish, type_: Type) -> Value:
        """`x` as a Value of `type_`: a number becomes a constant, a scalar is splat if `type_` is a vector of it."""
        if numeric(x):
            return self.const(x, type_)  # type: ignore[arg-type]
        assert isinstance(x, Value)
        if x.type != type_ and type_.lanes and x.type == type_.element:
            return self.splat(x, type_.lanes)
        if x.type != type_:
            raise TypeError(f"expected a value of type {type_}, found {x!r}")
        return x

    def pair(self, a: Operandish, b: Operandish) -> tuple[Value, Value]:
        """Both operands in the type of the one that is a vector, or of the one that is not a number."""
        types = [x.type for x in (a, b) if isinstance(x, Value)]
        type_ = max(types, key=lambda t: t.lanes)
        return self.as_value(a, type_), self.as_value(b, type_)

    def splat(self, x: Value, lanes: int) -> Value:
        """A vector with the scalar `x` in every lane."""
        if x.constant is not None:
            return self.const(x.constant, x.type.of(lanes))
        vector = x.type.of(lanes)
        first = self.emit(f"insertelement {vector} poison, {x}, i32 0", vector)
        return self.emit(f"shufflevector {first}, {vector} poison, <{lanes} x i32> zeroinitializer", vector)

    def convert(self, x: Value, element: Type) -> Value:
        """`x` with elements of another type, by value: floats round to nearest even, float to integer truncates and
        saturates (NaN gives 0), i1 counts as unsigned, other integers as signed.
        """
        source, target = x.type, x.type.with_element(element)
        if source == target:
            return x
        if source.is_float and target.is_float:
            return self.emit(f"{'fpext' if target.bits > source.bits else 'fptrunc'} {x} to {target}", target)
        if source.is_float:
            return self._saturated(x, target, signed=True)
        if target.is_float:
            return self.emit(f"{'uitofp' if source.element == I1 else 'sitofp'} {x} to {target}", target)
        if target.bits < source.bits:
            return self.emit(f"trunc {x} to {target}", target)
        return self.emit(f"{'zext' if source.element == I1 else 'sext'} {x} to {target}", target)

    def extend_unsigned(self, x: Value, element: Type) -> Value:
        """Zero extension to a wider integer."""
        target = x.type.with_element(element)
        return self.emit(f"zext {x} to {target}", target)

    def from_unsigned(self, x: Value, element: Type) -> Value:
        """An unsigned integer as a float."""
        target = x.type.with_element(element)
        return self.emit(f"uitofp {x} to {target}", target)

    def to_unsigned(self, x: Value, element: Type) -> Value:
        """A float as an unsigned integer: truncates and saturates, NaN gives 0."""
        return self._saturated(x, x.type.with_element(element), signed=False)

    def _saturated(self, x: Value, target: Type, signed: bool) -> Value:
        """A float as an integer: truncates and saturates, NaN gives 0."""
        name = "fptosi" if signed else "fptoui"
        if self.native_saturation or not target.lanes:
            return self.intrinsic(f"{name}.sat", target, x, overload=x.type)
        # LLVM's own saturating conversion of vectors goes lane by lane on x86. What the plain one makes of numbers
        # that do not fit is replaced.
        bits = target.bits - signed
        low, high = (-(2**bits) if signed else 0), 2**bits
        plain = self.emit(f"{name} {x} to {target}", target)
        result = self.emit(f"freeze {plain}", target)
        result = self.select(self.ge(x, float(high)), high - 1, result)
        result = self.select(self.lt(x, float(low)), low, result)
        return self.select(self.is_nan(x), 0, result)

    def bitcast(self, x: Value, type_: Type) -> Value:
        """The same bits as another type; `type_` may be an element type, then the number of lanes is kept."""
        target = type_ if type_.size == x.type.size else x.type.with_element(type_)
        if target == x.type:
            return x
        if target.is_pointer:
            return self.emit(f"inttoptr {x} to ptr", target)
        if x.type.is_pointer:
            return self.emit(f"ptrtoint {x} to {target}", target)
        return self.emit(f"bitcast {x} to {target}", target)

    # --- arithmetic --------------------------------------------------------------------------------
    def _binary(self, integer: str, floating: str, a: Operandish, b: Operandish) -> Value:
        x, y = self.pair(a, b)
        name = floating if x.type.is_float else integer
        return self.emit(f"{name} {x}, {y.text}", x.type)

    def add(self, a: Operandish, b: Operandish) -> Value:
        x, y = self.pair(a, b)
        if not x.type.is_float:
            if x.constant is not None and y.constant is not None:
                return self.const(x.constant + y.constant, x.type)
            if x.constant == 0:
                return y
            if y.constant == 0:
                return x
        return self._binary("add", "fadd", x, y)

    def sub(self, a: Operandish, b: Operandish) -> Value:
        x, y = self.pair(a, b)
        if not x.type.is_float:
            if x.constant is not None and y.constant is not None:
                return self.const(x.constant - y.constant, x.type)
            if y.constant == 0:
                return x
        return self._binary("sub", "fsub", x, y)

    def mul(self, a: Operandish, b: Operandish) -> Value:
        x, y = self.pair(a, b)
        if not x.type.is_float:
            if x.constant is not None and y.constant is not None:
                return self.const(x.constant * y.constant, x.type)
            if 0 in (x.constant, y.constant):
                return self.const(0, x.type)
            if x.constant == 1:
                return y
            if y.constant == 1:
                return x
        return self._binary("mul", "fmul", x, y)

    def div(self, a: Operandish, b: Operandish) -> Value:
        """Float division, or signed integer division that truncates."""
        return self._binary("sdiv", "fdiv", a, b)

    def rem(self, a: Operandish, b: Operandish) -> Value:
        """Remainder with the dividend's sign. Integers only: a float remainder is a library call."""
        x, y = self.pair(a, b)
        if x.type.is_float:
            raise TypeError(f"expected integers, found {x!r}")
        return self.emit(f"srem {x}, {y.text}", x.type)

    def udiv(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("udiv", "udiv", a, b)

    def urem(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("urem", "urem", a, b)

    def neg(self, x: Value) -> Value:
        return self.emit(f"fneg {x}", x.type) if x.type.is_float else self.sub(0, x)

    def and_(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("and", "and", a, b)

    def or_(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("or", "or", a, b)

    def xor(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("xor", "xor", a, b)

    def shl(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("shl", "shl", a, b)

    def ashr(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("ashr", "ashr", a, b)

    def lshr(self, a: Operandish, b: Operandish) -> Value:
        return self._binary("lshr", "lshr", a, b)

    def fma(self, a: Operandish, b: Operandish, c: Operandish) -> Value:
        """a * b + c, rounded once."""
        type_ = max((x.type for x in (a, b, c) if isinstance(x, Value)), key=lambda t: t.lanes)
        return self.intrinsic("fma", type_, *(self.as_value(x, type_) for x in (a, b, c)))

    # --- functions with an instruction of their own ------------------------------------------------
    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", x.type, x)

    def floor(self, x: Value) -> Value:
        return self.intrinsic("floor", x.type, x)

    def ceil(self, x: Value) -> Value:
        return self.intrinsic("ceil", x.type, x)

    def trunc(self, x: Value) -> Value:
        """Towards zero."""
        return self.intrinsic("trunc", x.type, x)

    def rint(self, x: Value) -> Value:
        """To the nearest integer, ties to even."""
        return self.intrinsic("roundeven", x.type, x)

    def abs(self, x: Value) -> Value:
        if x.type.is_float:
            return self.intrinsic("fabs", x.type, x)
        return self.select(self.lt(x, 0), self.neg(x), x)

    def copysign(self, magnitude: Operandish, sign: Operandish) -> Value:
        x, y = self.pair(magnitude, sign)
        return self.intrinsic("copysign", x.type, x, y)

    # --- comparison and choice ---------------------------------------------------------------------
    def compare(self, kind: str, a: Operandish, b: Operandish) -> Value:
        """`kind` is lt, le, gt, ge, eq or ne. With a NaN, ne is true and all others are false."""
        x, y = self.pair(a, b)
        result = x.type.with_element(I1)
        if x.type.is_float:
            return self.emit(f"fcmp {_FLOAT_COMPARE[kind]} {x}, {y.text}", result)
        return self.emit(f"icmp {_INT_COMPARE[kind]} {x}, {y.text}", result)

    def lt(self, a: Operandish, b: Operandish) -> Value:
        return self.compare("lt", a, b)

    def le(self, a: Operandish, b: Operandish) -> Value:
        return self.compare("le", a, b)

    def gt(self, a: Operandish, b: Operandish) -> Value:
        return self.compare("gt", a, b)

    def ge(self, a: Operandish, b: Operandish) -> Value:
        return self.compare("ge", a, b)

    def eq(self, a: Operandish, b: Operandish) -> Value:
        return self.compare("eq", a, b)

    def ne(self, a: Operandish, b: Operandish) -> Value:
        return self.compare("ne", a, b)

    def ult(self, a: Operandish, b: Operandish) -> Value:
        """Unsigned less-than."""
        x, y = self.pair(a, b)
        return self.emit(f"icmp ult {x}, {y.text}", x.type.with_element(I1))

    def is_nan(self, x: Value) -> Value:
        return self.emit(f"fcmp uno {x}, {x.text}", x.type.with_element(I1))

    def select(self, condition: Value, a: Operandish, b: Operandish) -> Value:
        """a where the condition holds, else b; a scalar condition chooses whole vectors."""
        x, y = self.pair(a, b)
        return self.emit(f"select {condition}, {x}, {y}", x.type)

    def _extreme(self, kind: str, a: Operandish, b: Operandish) -> Value:
        x, y = self.pair(a, b)
        if not x.type.is_float:
            return self.select(self.compare(kind, x, y), x, y)
        if self.native_nan_max:
            return self.intrinsic("maximum" if kind == "gt" else "minimum", x.type, x, y)
        if y.constant is not None and y.constant == y.constant:
            # compare-and-select keeps the second operand when either is NaN, so the one that may be NaN goes second.
            x, y = y, x
        chosen = self.select(self.compare(kind, x, y), x, y)
        if x.constant is not None and x.constant == x.constant:
            return chosen
        return self.select(self.is_nan(x), x, chosen)

    def max(self, a: Operandish, b: Operandish) -> Value:
        """The larger; NaN if either is NaN. One instruction when one operand is a constant."""
        return self._extreme("gt", a, b)

    def min(self, a: Operandish, b: Operandish) -> Value:
        """The smaller; NaN if either is NaN. One instruction when one operand is a constant."""
        return self._extreme("lt", a, b)

    def max_keep(self, a: Operandish, b: Operandish) -> Value:
        """The larger, or `b` if either is NaN: one instruction on x86. For an `a` that is known not to be NaN."""
        x, y = self.pair(a, b)
        return self.select(self.gt(x, y), x, y)

    def min_keep(self, a: Operandish, b: Operandish) -> Value:
        """The smaller, or `b` if either is NaN: one instruction on x86. For an `a` that is known not to be NaN."""
        x, y = self.pair(a, b)
        return self.select(self.lt(x, y), x, y)

    # --- lanes -------------------------------------------------------------------------------------
    def extract(self, vector: Value, lane: int | Value) -> Value:
        index = self.as_value(lane, I64)
        return self.emit(f"extractelement {vector}, {index}", vector.type.element)

    def insert(self, vector: Value, x: Value, lane: int) -> Value:
        return self.emit(f"insertelement {vector}, {x}, i64 {lane}", vector.type)

    def shuffle(self, a: Value, b: Value | None, lanes: Sequence[int]) -> Value:
        """Lanes picked from `a` followed by `b`; -1 leaves a lane undefined."""
        other = b.text if b is not None else "poison"
        picks = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in lanes)
        return self.emit(f"shufflevector {a}, {a.type} {other}, <{len(lanes)} x i32> <{picks}>", a.type.of(len(lanes)))

    def transpose(self, rows: Sequence[Value]) -> list[Value]:
        """The n x n matrix whose rows are n vectors of n lanes (n a power of two), transposed in log2(n) rounds of
        two-operand shuffles.
        """
        n, vectors, step = len(rows), list(rows), 1
        while step < n:
            low = [i if not i & step else n + i - step for i in range(n)]
            high = [i + step if not i & step else n + i for i in range(n)]
            for i in range(n):
                if not i & step:
                    a, b = vectors[i], vectors[i + step]
                    vectors[i], vectors[i + step] = self.shuffle(a, b, low), self.shuffle(a, b, high)
            step *= 2
        return vectors

    def reduce(self, kind: str, vector: Value) -> Value:
        """All lanes combined by `add`, `mul`, `max`, `min` (NaN propagates), `and` or `or`; float sums go pairwise."""
        element = vector.type.element
        if element.is_float and kind in ("add", "mul"):
            start = self.const(0.0 if kind == "add" else 1.0, element)
            return self.intrinsic(f"vector.reduce.f{kind}", element, start, vector, overload=vector.type)
        if element.is_float:
            return self.intrinsic(
                f"vector.reduce.f{'maximum' if kind == 'max' else 'minimum'}", element, vector, overload=vector.type
            )
        name = f"s{kind}" if kind in ("max", "min") else kind
        return self.intrinsic(f"vector.reduce.{name}", element, vector, overload=vector.type)

    def iota(self, lanes: int, element: Type = I32) -> Value:
        """The constant vector 0, 1, 2, ..."""
        return self.const_vector(range(lanes), element)

    def float_bits(self, x: Value) -> Value:
        """The float32 whose bits are the low half of an i64: how a float travels in a kernel's parameters."""
        return self.bitcast(self.convert(x, I32), F32)
