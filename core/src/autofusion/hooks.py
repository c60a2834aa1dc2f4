"""The marker of hook implementations, for the modules that entry points name."""

from __future__ import annotations

import pluggy

PROJECT = "autofusion"
hookimpl = pluggy.HookimplMarker(PROJECT)
