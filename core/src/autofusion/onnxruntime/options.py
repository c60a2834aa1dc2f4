"""Session and run options: every attribute of the original is accepted and kept; those that have a meaning here count.

``intra_op_num_threads`` states the threads, ``graph_optimization_level`` the level. What is kept without a meaning here
is handed on when the real onnxruntime has to run the model.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from autofusion.cost.detect import usable_cores
from autofusion.options import Stated, state


class GraphOptimizationLevel(enum.IntEnum):
    """How much of a graph is optimised."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether independent operators run at the same time; here each operator uses all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """The order of operators; here the order is the graph's own."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_LEVELS = {GraphOptimizationLevel.ORT_DISABLE_ALL: "off", GraphOptimizationLevel.ORT_ENABLE_BASIC: "basic"}
"""Level here; the others, the default among them, leave it to the settings (``full`` unless something else is said)."""


class _Options:
    """Attributes with defaults, those that the class annotates, checked as the original checks them."""

    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._defaults = {name: getattr(cls, name) for name in cls.__annotations__}

    def __init__(self) -> None:
        # Past the check: these two are nobody's options.
        self.__dict__["_entries"] = {}
        self.__dict__["_calls"] = []

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        kind = type(self._defaults[name])
        try:
            if kind is str and not isinstance(value, str):
                raise TypeError
            self.__dict__[name] = kind(value)
        except (TypeError, ValueError):
            what = f"{type(self).__name__}.{name} must be of type {kind.__name__}, found {value!r}"
            raise TypeError(what) from None

    @property
    def calls(self) -> list[tuple[str, tuple[Any, ...]]]:
        """(method, arguments) of everything that was added, in order."""
        found: list[tuple[str, tuple[Any, ...]]] = self.__dict__["_calls"]
        return found

    def _call(self, method: str, *arguments: Any) -> None:
        self.calls.append((method, arguments))

    def _entry(self, key: str) -> str:
        if key not in self.__dict__["_entries"]:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return str(self.__dict__["_entries"][key])

    def stated(self) -> dict[str, Any]:
        """The attributes that differ from their defaults."""
        return {name: getattr(self, name) for name, default in self._defaults.items() if getattr(self, name) != default}


class SessionOptions(_Options):
    """Options of a session. Raises AttributeError for an unknown attribute, TypeError for a value of a wrong type."""

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has a meaning here."""
        self._call("add_session_config_entry", str(key), str(value))
        self.__dict__["_entries"][str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """An entry that was added; raise RuntimeError if there is none."""
        return self._entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Keep the size of a symbol; here every size is taken from the inputs of the run."""
        self._call("add_free_dimension_override_by_name", str(name), int(size))

    def add_free_dimension_override_by_denotation(self, name: str, size: int) -> None:
        """Keep the size of a denotation; here every size is taken from the inputs of the run."""
        self._call("add_free_dimension_override_by_denotation", str(name), int(size))

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        """Keep a provider; the models run on the CPU here."""
        self._call("add_provider", str(name), dict(options))

    def add_initializer(self, name: str, value: Any) -> None:
        """Replace an initialiser: only the real onnxruntime can."""
        self._call("add_initializer", name, value)

    def add_external_initializers(self, names: Any, values: Any) -> None:
        """Replace initialisers: only the real onnxruntime can."""
        self._call("add_external_initializers", names, values)

    def register_custom_ops_library(self, path: str) -> None:
        """Load operators from a library: only the real onnxruntime can."""
        self._call("register_custom_ops_library", path)

    def beyond(self) -> str:
        """What was asked for that only the real onnxruntime does, or an empty string."""
        ours = ("add_initializer", "add_external_initializers", "register_custom_ops_library")
        asked = [method for method, _ in self.calls if method in ours]
        asked += ["enable_profiling"] if self.enable_profiling else []
        asked += ["optimized_model_filepath"] if self.optimized_model_filepath else []
        return ", ".join(f"SessionOptions.{name}" for name in asked)

    def stated_options(self) -> Stated:
        """The options of a compilation that these state. More threads than cores would only wait for each other."""
        threads = self.intra_op_num_threads
        return state(
            {
                "level": _LEVELS.get(self.graph_optimization_level),
                "threads": min(threads, usable_cores()) if threads > 0 else None,
            }
        )


class RunOptions(_Options):
    """Options of a run; ``terminate`` ends it before it starts."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has a meaning here."""
        self.__dict__["_entries"][str(key)] = str(value)

    def get_run_config_entry(self, key: str) -> str:
        """An entry that was added; raise RuntimeError if there is none."""
        return self._entry(key)
