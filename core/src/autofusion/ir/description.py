"""What a model file says about itself, as it says it: for callers who look, never for the compiler.

Importing may rename a symbol, infer a better shape or drop what nobody uses. The signature here is the file's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autofusion.ir.types import Type


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared input or output; ``type`` is None if the file states none."""

    name: str
    type: Type | None


@dataclass(frozen=True, slots=True)
class Description:
    """Who made a model, and what it declares. What the file does not say is empty; ``version`` is None then.

    ``inputs`` leaves out those with a stored default, which are in ``defaults``. ``properties`` are the model's own
    named texts.
    """

    producer: str = ""
    domain: str = ""
    version: int | None = None
    text: str = ""
    graph_name: str = ""
    graph_text: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Declared, ...] = ()
    defaults: tuple[Declared, ...] = ()
    outputs: tuple[Declared, ...] = ()
    opsets: Mapping[str, int] = field(default_factory=dict)
    """Versions of the operator sets by domain; the default domain is empty."""
