"""Literals of the text form: numbers, strings and tensors, such that reading back gives the same bits.

Every float is written with the fewest digits that restore it, and a NaN with unusual bits as those bits. Tensors of
more than ``FULL`` elements are written as a digest: text is for reading and comparing, weights are not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.errors import GraphError
from autofusion.ir.dtypes import dtype_from_name, dtype_name
from autofusion.ir.types import Dim, OptionalType, SequenceType, TensorType, Type

FULL = 16
"""Tensors up to this many elements are written in full."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9_.]+", re.ASCII)
_OPERATOR = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(::[A-Za-z0-9_.]+)?", re.ASCII)
F64 = np.dtype(np.float64)


def name_text(name: str) -> str:
    """A name: bare where the grammar allows, else as a string."""
    return name if _NAME.fullmatch(name) else json.dumps(name)


def value_text(name: str) -> str:
    """A value: ``%name`` or ``%"any name"``."""
    return f"%{name if _VALUE.fullmatch(name) else json.dumps(name)}"


def operator_text(name: str) -> str:
    """An operator name, with its domain if it has one."""
    return name if _OPERATOR.fullmatch(name) else json.dumps(name)


def type_text(type_: Type | None) -> str:
    """A type; ``?`` if it is unknown."""
    if type_ is None:
        return "?"
    if isinstance(type_, SequenceType):
        return f"seq({type_text(type_.element)})"
    if isinstance(type_, OptionalType):
        return f"optional({type_text(type_.element)})"
    dims = "*" if type_.shape is None else ", ".join(map(_dim_text, type_.shape))
    return f"{dtype_name(type_.dtype)}[{dims}]"


def _dim_text(dim: Dim) -> str:
    return "?" if dim is None else name_text(dim) if isinstance(dim, str) else str(dim)


# ---- tensors -----------------------------------------------------------------------------------------------


def digest(array: np.ndarray) -> str:
    """Eight hexadecimal digits that stand for the data of ``array``."""
    if array.dtype.kind in "OUS":
        data = json.dumps([str(x) for x in array.reshape(-1)]).encode()
    else:
        data = np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(data).hexdigest()[:8]


def tensor_text(array: np.ndarray, aliases: Mapping[str, str]) -> str:
    """``dense<...> : type``; ``aliases`` replaces digests (see ``SeededConstants``)."""
    if array.size > FULL:
        found = digest(array)
        inner = f"sha256:{aliases.get(found, found)}"
    else:
        inner = _nested(array.reshape(-1), array.shape)
    shape = ", ".join(map(str, array.shape))
    return f"dense<{inner}> : {dtype_name(array.dtype)}[{shape}]"


def _nested(elements: np.ndarray, shape: Sequence[int]) -> str:
    if not shape:
        return element_text(elements[0], elements.dtype)
    step = elements.size // shape[0] if shape[0] else 0
    return f"[{', '.join(_nested(elements[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}]"


def element_text(element: Any, dtype: np.dtype) -> str:
    """One element of a tensor, or a scalar attribute with the dtype that Python gives it."""
    if dtype.kind in "OUS":
        return json.dumps(str(element))
    if dtype.kind == "b":
        return "true" if element else "false"
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return f"({element_text(element.real, part)}, {element_text(element.imag, part)})"
    if dtype_name(dtype)[0] in "iu":
        return str(int(element))
    if element != element and np.array(element, dtype).tobytes() != np.array(np.nan, dtype).tobytes():
        return f"0x{int.from_bytes(np.array(element, dtype).tobytes(), 'little'):x}"
    # NumPy's own formats know the fewest digits; other formats are exact in double precision.
    return str(np.asarray(element, dtype)[()]) if dtype.kind == "f" else repr(float(element))


def element_value(text: str, dtype: np.dtype) -> Any:
    """The element that ``text`` (one token, no string) stands for; ValueError if it is none of ``dtype``."""
    if dtype.kind == "b":
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"
    if dtype_name(dtype)[0] in "iu":
        return int(text)
    if text.startswith("0x"):
        return np.frombuffer(int(text, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
    return float(text)


def build_tensor(elements: list[Any], type_: TensorType) -> np.ndarray:
    """The array of these elements; ValueError if their number or a value does not fit the type."""
    if len(elements) != type_.numel:
        raise ValueError(f"expected {type_.numel} elements for {type_}, found {len(elements)}")
    array = np.empty(len(elements), type_.dtype)
    for index, element in enumerate(elements):
        # Integers out of range raise; a bit pattern keeps its bits because it has the dtype already.
        array[index] = element
    return array.reshape(type_.static_shape)


class SeededConstants:
    """Makes data for digests: golden tests may then use weights of any size without storing them.

    The data depends on the digest and the type only. ``aliases`` maps the digest of what was made back to the digest in
    the text, so that ``to_text(graph, aliases=constants.aliases)`` shows a constant that no rule touched as it was.
    """

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}

    def make(self, wanted: str, type_: TensorType) -> np.ndarray:
        """Data of ``type_`` for the digest ``wanted``."""
        array = _random(np.random.default_rng(int(wanted, 16)), type_)
        self.aliases[digest(array)] = wanted
        return array


def _random(generator: np.random.Generator, type_: TensorType) -> np.ndarray:
    shape, name = type_.static_shape, dtype_name(type_.dtype)
    if name == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if name == "str":
        return np.array([f"s{i}" for i in generator.integers(0, 100, type_.numel)], object).reshape(shape)
    if name[0] in "iu":
        return generator.integers(0, 2, shape).astype(type_.dtype)
    return (generator.standard_normal(shape) / 8).astype(type_.dtype)


# ---- tokens ------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*)+)
      | (?P<digest>sha256:[0-9a-f]{8})
      | (?P<value>%(?:[A-Za-z0-9_.]+|"(?:[^"\\\n]|\\.)*"))
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|(?:inf|nan)\b))
      | (?P<name>[A-Za-z_][A-Za-z0-9_.]*(?:::[A-Za-z0-9_.]+)?)
      | (?P<mark>->|[][(){}<>,:=?*@])""",
    re.VERBOSE | re.ASCII,
)


class Tokens:
    """The tokens of a text, with one of look-ahead; every error names the line."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[tuple[str, str, int]] = self._scan(text)
        self.kind, self.text, self.line = next(self._tokens)

    @staticmethod
    def _scan(text: str) -> Iterator[tuple[str, str, int]]:
        position, line = 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise GraphError(f"line {line}: unexpected character {text[position]!r}")
            if match.lastgroup != "space":
                yield str(match.lastgroup), match.group(), line
            line += match.group().count("\n")
            position = match.end()
        while True:
            yield "end", "the end of the text", line

    def fail(self, expected: str) -> GraphError:
        """The error for the token at hand."""
        found = self.text if self.kind == "end" else f"'{self.text}'"
        return GraphError(f"line {self.line}: expected {expected}, found {found}")

    def advance(self) -> str:
        """Take the token at hand."""
        text = self.text
        self.kind, self.text, self.line = next(self._tokens)
        return text

    def accept(self, text: str) -> bool:
        """Take the token at hand if it is ``text``."""
        if self.text == text and self.kind in ("mark", "name"):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        """Take ``text`` or fail."""
        if not self.accept(text):
            raise self.fail(f"'{text}'")

    def take(self, kind: str, expected: str) -> str:
        """Take a token of ``kind`` or fail."""
        if self.kind != kind:
            raise self.fail(expected)
        return self.advance()

    def name(self, expected: str) -> str:
        """Take a name, bare or as a string."""
        if self.kind == "string":
            return str(json.loads(self.advance()))
        return self.take("name", expected)

    def value(self) -> str:
        """Take a value; its name."""
        text = self.take("value", "a value such as %0")[1:]
        return str(json.loads(text)) if text.startswith('"') else text

    def type(self) -> Type | None:
        """Take a type; None for ``?``."""
        if self.accept("?"):
            return None
        name = self.take("name", "a type such as f32[1, N, ?]")
        if name in ("seq", "optional"):
            self.expect("(")
            element = self.type()
            if element is None:
                raise GraphError(f"line {self.line}: the element type of '{name}' must be known")
            self.expect(")")
            return SequenceType(element) if name == "seq" else OptionalType(element)
        return self.tensor_type(name)

    def tensor_type(self, name: str) -> TensorType:
        """Take the shape behind the element type ``name``."""
        dtype = self.dtype(name)
        self.expect("[")
        if self.accept("*"):
            self.expect("]")
            return TensorType(dtype, None)
        dims: list[Dim] = []
        while not self.accept("]"):
            if dims:
                self.expect(",")
            dims.append(self._dim())
        return TensorType(dtype, tuple(dims))

    def dtype(self, name: str) -> np.dtype:
        """The element type ``name``, or an error with the line."""
        try:
            return dtype_from_name(name)
        except GraphError as error:
            raise GraphError(f"line {self.line}: {error}") from None

    def _dim(self) -> Dim:
        if self.accept("?"):
            return None
        if self.kind == "number":
            if not self.text.isdigit():
                raise self.fail("a dim")
            return int(self.advance())
        return self.name("a dim (an integer, a symbol or ?)")


def type_from_text(text: str) -> Type | None:
    """The type that ``type_text`` writes as ``text``; raise GraphError for anything else."""
    tokens = Tokens(text)
    found = tokens.type()
    if tokens.kind != "end":
        raise tokens.fail("the end of a type")
    return found
