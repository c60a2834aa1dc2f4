"""The one way to say no: a reason, who is at fault, and what would change the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # discovery refuses plugins, and is to import nothing heavy
    from autofusion.ir.graph import Node, Value


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not done: a rule's site is not legal, a kernel pack does not run a node, a switch forbids it.

    ``reason`` names the culprits in words; after a kernel pack's name it completes the sentence "cannot run it: ...".
    ``culprit`` is the node or value at fault. ``hint`` says what would change the answer ("would fuse if dim 'n' were
    1"), where that is known.
    """

    reason: str
    culprit: Node | Value | None = None
    hint: str = ""

    def at(self, site: str) -> Refusal:
        """The same refusal, with the place named in front of the reason."""
        return Refusal(f"{site}: {self.reason}", self.culprit, self.hint)
