"""Einsum of two operands as a matrix product between Transposes and Reshapes.

The letters of the equation are of four kinds: in both operands and the result (a stack of products), in one operand and
the result (rows and columns), and in both operands only (summed over). Brought into this order, the sum is a MatMul.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, op_class
from autofusion.ir.operators.contraction import einsum_terms
from autofusion.ir.types import Dim
from autofusion.rules import Builder, Match, Refusal, RewriteRule, is_float, op, same_dim, var

_HIDDEN = 0x2460
"""Characters from here on stand for the axes of an ellipsis."""


@dataclass(frozen=True, slots=True)
class _Product:
    """The two factors, their letters, and the letters of each kind in the order of the product."""

    factors: tuple[Value, Value]
    terms: tuple[str, str]
    stack: str
    rows: str
    columns: str
    summed: str
    result: str

    @property
    def made(self) -> str:
        """The letters of the product."""
        return self.stack + self.rows + self.columns


def _read(node: Node) -> _Product | Refusal:
    """The product, or why there is none."""
    written, result = einsum_terms(node)
    values = [v for v in node.inputs if v is not None]
    hidden = ""
    terms = []
    for term, value in zip(written, values, strict=True):
        if value.shape is None:
            return Refusal(f"the rank of '{value.name}' is not known")
        before, dots, after = term.partition("...")
        count = len(value.shape) - len(before) - len(after)
        own = "".join(chr(_HIDDEN + i) for i in range(count)) if dots else ""
        if hidden and own and len(own) != len(hidden):
            return Refusal(f"the ellipses of '{','.join(written)}' stand for different numbers of axes")
        hidden = own or hidden
        terms.append(before + own + after)
    result = result.replace("...", hidden)
    if any(len(set(term)) != len(term) for term in (*terms, result)):
        return Refusal(f"a letter of '{','.join(written)}' occurs twice in one term")
    return _sorted(values, terms, result)


def _sorted(values: Sequence[Value], terms: Sequence[str], result: str) -> _Product | Refusal:
    first, second = 0, 1
    free = [[c for c in term if c in result and c not in other] for term, other in (terms, terms[::-1])]
    # An operand with rows of its own comes first; of two, that which needs no Transpose behind the product.
    if free[1] and (not free[0] or result[-1] in free[0]):
        first, second = 1, 0
    a, b = terms[first], terms[second]
    alone = [c for c in (*a, *b) if c not in result and not (c in a and c in b)]
    if alone:
        return Refusal(f"'{alone[0]}' is summed over in one operand only")
    summed = "".join(c for c in a if c not in result)
    if not summed:
        return Refusal("nothing is summed over")
    x, y = values[first], values[second]
    for letter in summed:
        sizes = [v.shape[t.index(letter)] for v, t in ((x, a), (y, b)) if v.shape is not None]
        if not same_dim(sizes[0], sizes[1]):
            return Refusal(f"the sizes of '{letter}', {sizes[0]} and {sizes[1]}, may differ")
    return _Product(
        (x, y),
        (a, b),
        "".join(c for c in result if c in a and c in b),
        "".join(c for c in result if c in a and c not in b),
        "".join(c for c in result if c in b and c not in a),
        summed,
        result,
    )


def _sizes(value: Value, term: str) -> dict[str, Dim]:
    return dict(zip(term, value.shape or (), strict=True))


def _target(groups: Sequence[str], before: Sequence[str], sizes: dict[str, Dim]) -> list[int] | None:
    """A Reshape's target of one number for each group of letters; None if more than one size stays open.

    ``before`` are the groups that the axes stand for now: an axis that stays in its place need not be known.
    """
    target, opened = [], 0
    for place, group in enumerate(groups):
        number = 1
        for letter in group:
            size = sizes[letter]
            if not isinstance(size, int):
                number = -1
                break
            number *= size
        if number in (-1, 0) and place < len(before) and before[place] == group:
            number = 0  # copied
        elif number == 0:
            return None
        elif number == -1:
            opened += 1
        target.append(number)
    return target if opened <= 1 else None


def _shapes(product: _Product) -> tuple[list[int] | None, list[int] | None, list[int] | None] | Refusal:
    """The Reshapes of both factors before, and of the product behind the MatMul; None where none is needed."""
    sizes = [_sizes(v, t) for v, t in zip(product.factors, product.terms, strict=True)]
    both = {**sizes[1], **sizes[0]}
    for letter in product.stack:
        if sizes[0][letter] == 1:
            both[letter] = sizes[1][letter]
    # Without a stack the rows stay as they are: a MatMul takes any number of axes before the last.
    rows = list(product.rows) if not product.stack and product.rows else [product.rows]
    orders = (
        [*product.stack, *rows, product.summed],
        [*product.stack, product.summed, product.columns],
        [*product.stack, *product.rows, *product.columns],
    )
    befores = (
        [*product.stack, *product.rows, *product.summed],
        [*product.stack, *product.summed, *product.columns],
        [*product.stack, *rows, product.columns],
    )
    found = []
    for order, before, known in zip(orders, befores, (*sizes, both), strict=True):
        target = None if order == before else _target(order, before, known)
        if order != before and target is None:
            return Refusal("more than one size of a group of letters is not known")
        found.append(target)
    return found[0], found[1], found[2]


def _rewrite(match: Match, builder: Builder) -> list[Value] | Refusal:
    node, name = match.root, match.root.name
    product = _read(node)
    if isinstance(product, Refusal):
        return Refusal(product.at(node.label).reason, node)
    shapes = _shapes(product)
    if isinstance(shapes, Refusal):
        return Refusal(shapes.at(node.label).reason, node)
    wanted = (product.stack + product.rows + product.summed, product.stack + product.summed + product.columns)
    a, b = (
        _reshaped(builder, _ordered(builder, value, term, order), target)
        for value, term, order, target in zip(product.factors, product.terms, wanted, shapes[:2], strict=True)
    )
    made = _reshaped(builder, builder.op("MatMul", a, b, name=name), shapes[2])
    return [_ordered(builder, made, product.made, product.result)]


def _ordered(builder: Builder, value: Value, term: str, order: str) -> Value:
    return value if term == order else builder.op("Transpose", value, perm=[term.index(c) for c in order])


def _reshaped(builder: Builder, value: Value, target: list[int] | None) -> Value:
    return value if target is None else builder.op("Reshape", value, builder.constant(target, "int64"))


EINSUM_PRODUCT = RewriteRule(
    "transformer.einsum_product",
    op("Einsum", var("a", where=is_float), var("b", where=is_float)),
    _rewrite,
    doc="""Say an Einsum of two operands as a matrix product.

    Before: %y = Einsum(%k, %q) {equation = "aecd,abcd->acbe"}
    After:  %y = MatMul(Transpose(%q) {perm = [0, 2, 1, 3]}, Transpose(%k) {perm = [0, 2, 3, 1]})
    With Reshapes where several letters are rows, columns or summed over together.
    Refuses when: a letter occurs twice in one term, or is summed over in one operand only; nothing is summed over; the
    sizes of a letter that is summed over may differ; more sizes are open than a Reshape can leave open.
    """,
)


def _swaps(node: Node) -> bool:
    """True for a Transpose of the last two axes."""
    value, perm = node.inputs[0], node.attrs.get("perm")
    rank = len(value.shape) if value is not None and value.shape is not None else 0
    return rank >= 2 and perm is not None and list(perm) == [*range(rank - 2), rank - 1, rank - 2]


def _of_one_rank(node: Node) -> bool:
    ranks = {len(v.shape) if v is not None and v.shape is not None else None for v in node.inputs}
    return len(ranks) == 1 and None not in ranks


def _rewrite_transposed(match: Match, builder: Builder) -> list[Value]:
    product = match.node("product")
    perm = list(match.root.attrs["perm"])
    a, b = (builder.op("Transpose", match.node(name).output, perm=perm) for name in ("left", "right"))
    return [builder.op("MatMul", b, a, name=product.name)]


TRANSPOSED_PRODUCT = RewriteRule(
    "transformer.transposed_product",
    op(
        "Transpose",
        op(
            "MatMul",
            op("Transpose", var("x"), name="left", shared=True),
            op("Transpose", var("y"), name="right", shared=True),
            name="product",
            where=_of_one_rank,
        ),
        where=_swaps,
    ),
    _rewrite_transposed,
    doc="""Multiply in the order that needs no Transpose of the product: its factors are transposed already.

    Before: %y = Transpose(MatMul(Transpose(%k), Transpose(%q))) {perm = [0, 1, 3, 2]}
    After:  %y = MatMul(Transpose(Transpose(%q)), Transpose(Transpose(%k)))
    Refuses when: the Transpose does more than swap the last two axes; a factor is not transposed.
    """,
)


def _probabilities(node: Node) -> bool:
    """True if the second factor is a Softmax, guarded perhaps, with its last two axes swapped."""
    transpose = None if node.inputs[1] is None else node.inputs[1].producer
    values, rank = node.inputs[0], node.output.shape
    if transpose is None or not _swaps(transpose) or values is None or values.shape is None or rank is None:
        return False
    value = transpose.inputs[0]
    for _ in range(3):
        made = None if value is None else value.producer
        if made is not None and made.op == "Softmax":
            return len(values.shape) >= 2
        if made is None or op_class(made) is not OpClass.POINTWISE:
            return False
        value = next((v for v in made.inputs if v is not None and _is_from_softmax(v)), None)
    return False


def _is_from_softmax(value: Value) -> bool:
    return value.producer is not None and value.producer.op == "Softmax"


def _swapped(builder: Builder, value: Value) -> Value:
    assert value.shape is not None
    rank = len(value.shape)
    return builder.op("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def _values_last(match: Match, builder: Builder) -> list[Value]:
    root = match.root
    product = builder.op("MatMul", match["p"], _swapped(builder, match["v"]), name=root.name)
    assert root.output.shape is not None
    rank = len(root.output.shape)
    return [builder.op("Transpose", product, perm=[*range(rank - 2), rank - 1, rank - 2])]


VALUES_LAST = RewriteRule(
    "transformer.values_last",
    op("MatMul", var("v"), op("Transpose", var("p"), shared=True), where=_probabilities),
    _values_last,
    doc="""Multiply probabilities with values, not values with probabilities.

    Before: %y = MatMul(%v, Transpose(Softmax(%s)) {perm = [0, 1, 3, 2]})
    After:  %y = Transpose(MatMul(Softmax(%s), Transpose(%v))) {perm = [0, 1, 3, 2]}
    So that attention has one form, which takes its Transposes in.
    Refuses when: the Transpose does more than swap the last two axes; what is transposed is not a Softmax, or the
    pointwise operators right behind one.
    """,
)

RULES = (EINSUM_PRODUCT, TRANSPOSED_PRODUCT, VALUES_LAST)
