"""What entry points go by: the marker of hook implementations, and the names of groups. Imports nothing heavy."""

from __future__ import annotations

import pluggy

PROJECT = "autofusion"
hookimpl = pluggy.HookimplMarker(PROJECT)
CONVERTER_GROUP = "autofusion.converters."
"""Prefix of the entry-point groups of converters that packages add to a frontend; the rest is the frontend's name."""
