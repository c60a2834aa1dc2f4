"""Mish from its pieces."""

from __future__ import annotations

from autofusion.rules import RewriteRule, const, either, is_float, op, var

_X = var("x", where=is_float)
_SOFTPLUS = either(op("Softplus", _X), op("Log", op("Add", op("Exp", _X), const("one", 1.0))))

MISH = RewriteRule(
    "pointwise.mish",
    op("Mul", _X, op("Tanh", _SOFTPLUS)),
    lambda match, builder: [builder.op("Mish", match["x"], name=match.root.name)],
    priority=5,
    doc="""Recognise Mish.

    Before: %y = Mul(%x, Tanh(Softplus(%x)))
    After:  %y = Mish(%x)
    Also with Log(Exp(x) + 1): where Exp overflows there, tanh is 1 either way.
    Refuses when: a piece is used elsewhere.
    """,
)

RULES = (MISH,)
