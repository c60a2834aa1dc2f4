"""Jobs for the tests of child processes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from typing import Any

from autofusion.errors import OptionError


def work(request: dict[str, Any], progress: Any) -> Any:
    """Do what ``request["do"]`` says."""
    progress("beginning")
    progress.keep({"half": True})
    what = request["do"]
    progress(f"doing {what}")
    if what == "return":
        return {"given": request["x"], "infinite": float("inf")}
    if what == "raise":
        raise ValueError("no such thing")
    if what == "refuse":
        raise OptionError("not like that")
    if what == "crash":
        ctypes.string_at(0)
    if what == "exit":
        sys.exit(7)
    if what == "hang":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        progress(f"started {child.pid}")
        child.wait()
    if what == "be slow":
        for number in range(8):
            progress(f"step {number}")
            time.sleep(0.3)
        return "done"
    raise AssertionError(what)
