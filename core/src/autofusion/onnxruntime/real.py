"""The stand-in under the name ``onnxruntime``, and the real package behind it.

The real package imports itself by that name, so it is imported while the stand-in is out of the way, and its modules
are kept apart.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.forks import RenewedLock

NAME = "onnxruntime"
_STATE = "onnxruntime_pybind11_state"
_lock = RenewedLock()
_real: list[ModuleType | None] = []


class _StandIn(ModuleType):
    """A module with what ``autofusion.onnxruntime`` has; anything else is the real package's, if it is installed."""

    def __getattr__(self, name: str) -> Any:
        import autofusion.onnxruntime as ours

        if name.startswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        if name in ours.__all__:
            return getattr(ours, name)
        package = real()
        found = None if package is None else sys_modules_of_real().get(self.__name__)
        if found is not None and hasattr(found, name):
            return getattr(found, name)
        raise AttributeError(
            f"module '{self.__name__}' has no attribute '{name}': autofusion.onnxruntime does not have it, "
            f"and {'neither has the' if package is not None else 'there is no'} real onnxruntime"
        )


def install() -> ModuleType:
    """Put the stand-in under the name ``onnxruntime``, with the modules that programs import; return it."""
    import autofusion.onnxruntime as ours
    from autofusion.onnxruntime import errors, session

    current = sys.modules.get(NAME)
    if isinstance(current, _StandIn):
        return current
    if current is not None:
        _keep(current)
        _take_out()
    package = _StandIn(NAME, ours.__doc__)
    capi = _StandIn(f"{NAME}.capi")
    state, private = _StandIn(f"{NAME}.capi.{_STATE}"), _StandIn(f"{NAME}.capi._pybind_state")
    collection = _StandIn(f"{NAME}.capi.onnxruntime_inference_collection")
    for module in (package, state, private, collection):
        for name in ours.__all__:
            setattr(module, name, getattr(ours, name))
        module.__dict__["__version__"] = ours.__version__
    for module in (state, private):
        for name, kind in errors.CLASSES.items():
            setattr(module, name, kind)
    collection.__dict__["Session"] = session.InferenceSession
    # Submodules that are not stood in for, such as ``quantization``, are found where the real package lies.
    where = _installed()
    for module, folder in ((package, ""), (capi, "/capi")):
        module.__path__ = [path + folder for path in where]
        module.__file__ = f"{module.__path__[0]}/__init__.py" if where else ours.__file__
        module.__spec__ = ours.__spec__
    for module in (package, capi, state, private, collection):
        sys.modules[module.__name__] = module
        parent, _, child = module.__name__.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    return package


def real() -> ModuleType | None:
    """The real onnxruntime, imported on first use; None if it is not installed, or cannot be imported."""
    with _lock:
        if not _real:
            current = sys.modules.get(NAME)
            if current is not None and not isinstance(current, _StandIn):
                return current
            _real.append(_import())
        return _real[0]


_modules: dict[str, ModuleType] = {}


def sys_modules_of_real() -> dict[str, ModuleType]:
    """The modules of the real package by their names, once it is imported."""
    return _modules


def _import() -> ModuleType | None:
    if not _installed():
        return None
    standing = _take_out()
    try:
        import importlib

        package = importlib.import_module(NAME)
        _keep(package)
        return package
    except PLUGIN_FAULTS as error:  # a broken installation is as good as none; the stand-in says why it is not used
        require_own(error)
        return None
    finally:
        _take_out()
        sys.modules.update(standing)


def _keep(package: ModuleType) -> None:
    _modules.update({name: module for name, module in sys.modules.items() if _is_its(name)})
    _real[:] = [package]


def _take_out() -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if _is_its(name)}


def _is_its(name: str) -> bool:
    return name == NAME or name.startswith(f"{NAME}.")


def _installed() -> list[str]:
    """The folder of the real package, as a search path; empty if it is not installed."""
    spec = PathFinder.find_spec(NAME)
    return list(spec.submodule_search_locations or ()) if spec is not None else []
