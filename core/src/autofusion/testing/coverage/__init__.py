"""What is fused, measured: small graphs of every known pattern, each in several spellings, and the steps that are left.

The rows are those of the table of fusions that other runtimes make on a CPU, by group:

| group | rows |
|---|---|
| A | constants that go into weights |
| B | what follows a convolution |
| C | what follows a product |
| D | normalisations in pieces |
| E | activations in pieces |
| F | attention |
| G | pointwise regions, reductions, resizing and pooling with what is around them |
| H | layout and movement |

A variant counts as fused in a spelling if no more steps are left than its ``ideal``. Changes of layout are not counted.
"""

from __future__ import annotations

from autofusion.testing.coverage import attention, epilogues, folds, norms, regions
from autofusion.testing.coverage.net import Variant


def variants() -> list[Variant]:
    """Every variant of every row, in the order of the table."""
    return [v for module in (folds, epilogues, norms, attention, regions) for v in module.VARIANTS]
