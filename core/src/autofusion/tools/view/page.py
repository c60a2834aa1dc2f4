"""The page itself: data, style and script in one file that opens without a network."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

SCRIPTS = ("layout.js", "model.js", "paint.js", "pane.js", "panel.js", "main.js")
"""In this order: each uses those before it."""


def render(data: Mapping[str, Any]) -> str:
    """The HTML page that shows ``data`` (see ``data.page_data``)."""
    assets = files("autofusion.tools.view") / "assets"
    # In a script element only "</" and "<!" could end the data; both are written so that JSON still reads them.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, default=_number).replace("<", "\\u003c")
    parts = {
        "title": html.escape(f"{data['name']} - Autofusion"),
        "style": (assets / "style.css").read_text(encoding="utf-8"),
        "data": text,
        "script": "\n".join((assets / name).read_text(encoding="utf-8") for name in SCRIPTS),
    }
    page = (assets / "page.html").read_text(encoding="utf-8")
    head, *rest = page.split("{{")
    pieces = [head]
    for piece in rest:
        name, _, tail = piece.partition("}}")
        pieces += [parts[name], tail]
    return "".join(pieces)


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
