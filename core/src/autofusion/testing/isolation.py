"""What a plugin does to the process that imports it, seen from a fresh interpreter.

Two things can only be seen there: which modules come with the plugin's module (in this process they are loaded
already), and whether core is still what it was. A plugin that replaces functions of core changes what every other
plugin does, so it is no plugin; there is not a way to load it safely, but there is a way to find it.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import dataclass

HEAVY = (
    "jax", "keras", "llvmlite", "mindspore", "numba", "numpy", "onnx", "onnxruntime", "openvino", "pandas", "scipy",
    "sympy", "tensorflow", "torch",
)  # fmt: skip
"""Modules that an entry point's module must not import: listing plugins imports it, and nothing may be slow there."""
SECONDS = 120

_SCRIPT = """
import importlib, importlib.metadata, json, pkgutil, sys, types
group, name, hook, heavy = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split(",")
points = [p for p in importlib.metadata.entry_points(group=group) if p.name == name]
module = points[0].load()
loaded = sorted(m for m in heavy if m in sys.modules)

import autofusion
for info in pkgutil.walk_packages(autofusion.__path__, "autofusion."):
    if not info.name.startswith(("autofusion.testing", "autofusion.cli", "autofusion.__main__")):
        importlib.import_module(info.name)

def state():
    found = {}
    for path, module in sorted(sys.modules.items()):
        if module is None or not (path == "autofusion" or path.startswith("autofusion.")):
            continue
        for key, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == path:
                for inner, member in vars(value).items():
                    found[f"{path}.{key}.{inner}"] = member
            if isinstance(value, (type, types.FunctionType, int, float, str, frozenset, tuple)) and key[:2] != "__":
                found[f"{path}.{key}"] = value
    return found

def foreign(key, value):
    code = getattr(value, "__code__", None)
    owner = getattr(value, "__module__", None)
    return code is not None and isinstance(owner, str) and owner.split(".")[0] == module.__name__.split(".")[0]

before = state()
early = sorted(key for key, value in before.items() if foreign(key, value))
from autofusion.cost.detect import detect
getattr(module, hook)(*([detect()] if hook == "autofusion_kernel_packs" else []))
after = state()
changed = sorted(k for k in before if k in after and before[k] is not after[k] and before[k] != after[k])
changed += sorted(k for k in before if k not in after)
print(json.dumps({"heavy": loaded, "changed": sorted({*early, *changed})}))
"""


@dataclass(frozen=True, slots=True)
class Import:
    """``heavy`` modules came with the plugin's module; ``changed`` are names of core that the plugin replaced."""

    heavy: tuple[str, ...]
    changed: tuple[str, ...]
    error: str = ""


@functools.cache
def imported(group: str, name: str, hook: str) -> Import:
    """Import the plugin in a new interpreter and call its hook."""
    command = [sys.executable, "-c", _SCRIPT, group, name, hook, ",".join(HEAVY)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Import((), (), f"it did not end within {SECONDS} s")
    if done.returncode:
        return Import((), (), (done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    return Import(tuple(found["heavy"]), tuple(found["changed"]))
