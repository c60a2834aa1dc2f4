"""Top-k accuracy: the share of images whose label is among the k classes with the highest scores."""

from __future__ import annotations

import numpy as np

from autofusion.errors import OptionError
from autofusion.tools.metrics import Arrays, target


class TopK:
    """``label`` [N] against scores [N, classes] in the first output that has that shape."""

    def __init__(self, name: str, k: int) -> None:
        self.name, self._k = name, k
        self._right = self._count = 0

    def add(self, outputs: Arrays, targets: Arrays) -> None:
        """Count a batch."""
        labels = target(targets, "label", self.name).reshape(-1)
        scores = next((s for s in map(np.asarray, outputs.values()) if s.ndim >= 2 and s.shape[0] == len(labels)), None)
        if scores is None:
            shapes = ", ".join(f"'{n}' {list(np.shape(v))}" for n, v in outputs.items())
            raise OptionError(f"no output has scores for {len(labels)} labels; found {shapes}")
        scores = scores.reshape(len(labels), -1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self._k]
        self._right += int((best == labels[:, None]).any(axis=1).sum())
        self._count += len(labels)

    def value(self) -> float:
        """The share that is right."""
        return self._right / self._count if self._count else 0.0
