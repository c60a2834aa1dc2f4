"""Character accuracy of text recognisers: 1 - edit distance / length of the text, over all texts together.

The classes of each time step are read as connectionist temporal classification does: the likeliest class, repeats
merged, blanks (class 0) dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.errors import OptionError, PluginError
from autofusion.tools.metrics import Arrays, target


class Characters:
    """``text`` (one, or one for each of the batch) against an output [N, steps, classes]."""

    name = "characters"

    def __init__(self, charset: Sequence[str]) -> None:
        try:
            from rapidfuzz.distance import Levenshtein
        except ImportError as error:
            raise PluginError("counting characters needs rapidfuzz: pip install autofusion[metrics]") from error
        if not charset:
            raise OptionError(
                "metric 'characters' needs the classes: a file 'charset.txt' beside the samples, one a line"
            )
        self._distance = Levenshtein.distance
        self._charset = list(charset)
        self._edits = self._length = 0
        self.read: list[str] = []
        """The texts as they were read, in order."""

    def add(self, outputs: Arrays, targets: Arrays) -> None:
        """Count a batch."""
        texts = [str(t) for t in target(targets, "text", self.name).reshape(-1)]
        scores = next((s for s in map(np.asarray, outputs.values()) if s.ndim == 3 and len(s) == len(texts)), None)
        if scores is None:
            shapes = ", ".join(f"'{n}' {list(np.shape(v))}" for n, v in outputs.items())
            raise OptionError(f"no output has classes for each step of {len(texts)} texts; found {shapes}")
        for text, classes in zip(texts, scores.argmax(2), strict=True):
            read = decode(classes, self._classes(scores.shape[2]))
            self.read.append(read)
            self._edits += self._distance(read, text)
            self._length += len(text)

    def _classes(self, count: int) -> list[str]:
        """Blank, the characters, and a space where the model has one class more."""
        classes = ["", *self._charset]
        if count == len(classes) + 1:
            classes.append(" ")
        if count != len(classes):
            raise OptionError(
                f"the model has {count} classes, the charset {len(self._charset)} characters; expected as many and a "
                "blank (and a space)"
            )
        return classes

    def value(self) -> float:
        """1 - edits / characters, at least 0."""
        return max(0.0, 1.0 - self._edits / self._length) if self._length else 0.0


def decode(classes: np.ndarray, characters: Sequence[str]) -> str:
    """The text that a sequence of classes stands for."""
    kept = [c for i, c in enumerate(classes) if c != 0 and (i == 0 or c != classes[i - 1])]
    return "".join(characters[int(c)] for c in kept)
