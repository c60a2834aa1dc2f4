"""What an author of rules needs: rules and packs, patterns, questions about values, growth of regions.

A rule says what may be rewritten or fused without changing the meaning. It sees the graph (``autofusion.ir``) and
nothing else: no cost, no layout, no kernel. docs/writing-a-rule.md is the guide.
"""

from typing import TYPE_CHECKING, Any

from autofusion import lazy
from autofusion.hooks import hookimpl

if TYPE_CHECKING:
    from autofusion.errors import GraphError, OptionError, PluginError
    from autofusion.kinds import (
        ATTENTION,
        CONV,
        INTEGER_CONV,
        INTEGER_MATMUL,
        LAYER_NORM,
        MATMUL,
        MOVES,
        POINTWISE,
        REDUCTION,
        SOFTMAX,
        STANDARD,
        FusedKind,
        scaled,
    )
    from autofusion.refusal import Refusal
    from autofusion.rules.check import problems
    from autofusion.rules.epilogue import Epilogue, any_broadcast, by_channel, follow, is_short, joining, why_alone
    from autofusion.rules.facts import (
        FLOATS,
        along_axis,
        arrow,
        axis_vector,
        constant_hint,
        fits_into,
        ints,
        is_float,
        is_float_type,
        is_parameter,
        normal_axis,
        not_constant,
        permuted,
        private_hint,
        same_dim,
        same_shape,
        scalar,
        spread,
    )
    from autofusion.rules.growth import LIMIT, Growth, Joins, backward, forward
    from autofusion.rules.level import Level
    from autofusion.rules.pattern import (
        Const,
        Either,
        Match,
        Op,
        Operand,
        Optional,
        Repeat,
        Var,
        const,
        either,
        op,
        var,
    )
    from autofusion.rules.priority import BANDS, parse_priority, priority_text
    from autofusion.rules.rule import Builder, FuseRule, Region, RewriteRule, Rule, RulePack, Stage

__all__ = [
    "ATTENTION",
    "BANDS",
    "CONV",
    "FLOATS",
    "INTEGER_CONV",
    "INTEGER_MATMUL",
    "LAYER_NORM",
    "LIMIT",
    "MATMUL",
    "MOVES",
    "POINTWISE",
    "REDUCTION",
    "SOFTMAX",
    "STANDARD",
    "Builder",
    "Const",
    "Either",
    "Epilogue",
    "FuseRule",
    "FusedKind",
    "GraphError",
    "Growth",
    "Joins",
    "Level",
    "Match",
    "Op",
    "Operand",
    "OptionError",
    "Optional",
    "PluginError",
    "Refusal",
    "Region",
    "Repeat",
    "RewriteRule",
    "Rule",
    "RulePack",
    "Stage",
    "Var",
    "along_axis",
    "any_broadcast",
    "arrow",
    "axis_vector",
    "backward",
    "by_channel",
    "const",
    "constant_hint",
    "either",
    "fits_into",
    "follow",
    "forward",
    "hookimpl",
    "ints",
    "is_float",
    "is_float_type",
    "is_parameter",
    "is_short",
    "joining",
    "normal_axis",
    "not_constant",
    "op",
    "parse_priority",
    "permuted",
    "priority_text",
    "private_hint",
    "problems",
    "same_dim",
    "same_shape",
    "scalar",
    "scaled",
    "spread",
    "var",
    "why_alone",
]
_MODULES = (
    "autofusion.errors",
    "autofusion.kinds",
    "autofusion.refusal",
    "autofusion.rules.check",
    "autofusion.rules.epilogue",
    "autofusion.rules.facts",
    "autofusion.rules.growth",
    "autofusion.rules.pattern",
    "autofusion.rules.level",
    "autofusion.rules.priority",
    "autofusion.rules.rule",
)


def __getattr__(name: str) -> Any:
    return lazy.find(name, __all__, _MODULES, globals())
