"""The first value of the network that deviates from level off: where to look when outputs are wrong.

Sites may all be right, each for itself, and the outputs wrong: then a rewrite changed the meaning. Values keep their
names as long as they keep their meaning, so the first one that differs is behind the culprit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autofusion.fusion.ledger import Verdict
from autofusion.runtime.session import Session
from autofusion.runtime.watch import surviving
from autofusion.tools.compare import difference

DEVIATES = 1e-4
"""Share of its range that a value may be off by rounding."""


def first_deviation(full: Session, off: Session, inputs: Mapping[str, Any]) -> str | None:
    """A sentence on the first value that deviates, with the rules that were applied there; None if none does."""
    names = surviving(full, inputs)
    watched, expected = full.watch(names, inputs).values, off.watch(names, inputs).values
    order = {v.name: (number, node) for number, node in enumerate(off.source.nodes) for v in node.outputs}
    for name in sorted(names, key=lambda n: order[n][0] if n in order else -1):
        if name not in order or not isinstance(watched[name], np.ndarray):
            continue
        apart = difference(watched[name], np.asarray(expected[name]))
        if apart.same_nonfinite and apart.max_over_range <= DEVIATES:
            continue
        node = order[name][1]
        origins = set(node.origin or (node.name,))
        rules = dict.fromkeys(
            r.rule for r in full.ledger.records if r.verdict is Verdict.FUSED and origins & set(r.nodes)
        )
        how = (
            "is NaN or infinite elsewhere"
            if not apart.same_nonfinite
            else f"is off by {apart.max_over_range:.2e} of its range"
        )
        at = f", where {', '.join(rules)} applied" if rules else ""
        return f"the first value that deviates is '{name}' of {node.label}: it {how}{at}"
    return None
