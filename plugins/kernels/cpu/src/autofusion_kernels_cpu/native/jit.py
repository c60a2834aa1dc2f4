"""IR text to callable machine code, with an object cache on disk.

Compilation takes 5 to 40 ms a kernel and loading an object 0.2 ms, so objects are kept under `$AUTOFUSION_CACHE` (or
`~/.cache/autofusion`), keyed by everything that determines them: the text, the processor and its features, LLVM's
version. A cache that cannot be read or written costs time, never correctness.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from autofusion.kernels import KernelError
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import Isa

ENVIRONMENT = "AUTOFUSION_CACHE"
# Part of every key: raise it when the way objects are made or called changes.
FORMAT = b"autofusion-object-1"


def cache_folder() -> Path:
    """Where objects are kept."""
    root = os.environ.get(ENVIRONMENT)
    return (
        Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autofusion"
    ) / "kernels"


@dataclasses.dataclass
class Counters:
    """What the process has done so far: a new input shape must leave `compiled` as it was."""

    compiled: int = 0
    cached: int = 0
    compile_ms: float = 0.0
    load_ms: float = 0.0

    def snapshot(self) -> Counters:
        return dataclasses.replace(self)


class Jit:
    """Compiles, caches and loads modules into this process. Thread-safe. Code lives until the process ends."""

    def __init__(self, folder: Path | None = None) -> None:
        self.counters = Counters()
        self._folder = folder
        self._lock = threading.RLock()
        self._addresses: dict[tuple[str, str], dict[str, int]] = {}
        self._machines: dict[Isa, Any] = {}
        self._engine: Any = None

    def kernel(self, module: Module) -> int:
        """The address of the module's only kernel."""
        (address,) = self.load(module).values()
        return address

    def load(self, module: Module) -> dict[str, int]:
        """The address of every exported function, by its name. Equal modules are loaded once."""
        text = module.text()
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._lock:
            known = self._addresses.get((module.isa.name, key))
            if known is None:
                known = self._load(module, key)
                self._addresses[module.isa.name, key] = known
            return known

    def assembly(self, module: Module) -> str:
        """The assembly text, for inspection."""
        llvm = _llvm()
        with self._lock:
            return str(self._machine(module.isa).emit_assembly(llvm.parse_assembly(module.text())))

    def object_code(self, module: Module, suffix: str = "") -> bytes:
        """Machine code for the module's instruction set, which need not be this machine's."""
        llvm = _llvm()
        with self._lock:
            parsed = llvm.parse_assembly(module.text(suffix))
            parsed.verify()
            return bytes(self._machine(module.isa).emit_object(parsed))

    def _machine(self, isa: Isa) -> Any:
        llvm = _llvm()
        if isa not in self._machines:
            triple = isa.triple or llvm.get_process_triple()
            options = {
                "cpu": isa.cpu,
                "features": isa.features,
                "opt": 3,
                "reloc": "pic",
                "codemodel": "small",
                "jit": True,
            }
            self._machines[isa] = llvm.Target.from_triple(triple).create_target_machine(**options)
        return self._machines[isa]

    def _load(self, module: Module, digest: str) -> dict[str, int]:
        llvm = _llvm()
        isa = module.isa
        # The names carry the instruction set as well: one process may hold the same kernel for two of them.
        suffix = f".{isa.name}.{digest[:24]}"
        parts = [
            FORMAT,
            digest.encode(),
            isa.triple.encode(),
            isa.cpu.encode(),
            isa.features.encode(),
            repr(llvm.llvm_version_info).encode(),
        ]
        path = (self._folder or cache_folder()) / f"{hashlib.sha256(b'|'.join(parts)).hexdigest()}.o"
        names = [(name, name + suffix) for name in module.exports]
        cached = self._read(path)
        if cached is not None:
            with contextlib.suppress(RuntimeError, OSError):
                addresses = self._add(cached, names)
                self.counters.cached += 1
                return addresses
        started = time.perf_counter()
        try:
            code = self.object_code(module, suffix)
        except RuntimeError as error:
            raise KernelError(
                f"generated kernel '{names[0][0]}' is not valid LLVM IR: expected it to parse and verify, "
                f"found: {error}"
            ) from error
        self.counters.compiled += 1
        self.counters.compile_ms += (time.perf_counter() - started) * 1e3
        self._write(path, code)
        return self._add(code, names)

    def _add(self, code: bytes, names: list[tuple[str, str]]) -> dict[str, int]:
        llvm = _llvm()
        started = time.perf_counter()
        if self._engine is None:
            machine = llvm.Target.from_default_triple().create_target_machine(
                opt=3, reloc="pic", codemodel="small", jit=True
            )
            # LLVM's own memory manager takes the sections of an object from wherever there is room. Where they end up
            # more than 2 GB apart, which small code cannot span, LLVM aborts the process.
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        addresses = {name: int(self._engine.get_function_address(symbol)) for name, symbol in names}
        if not all(addresses.values()):
            raise RuntimeError("object lacks a kernel")
        self.counters.load_ms += (time.perf_counter() - started) * 1e3
        return addresses

    @staticmethod
    def _read(path: Path) -> bytes | None:
        """The object, or None unless the file is whole: LLVM aborts the process on some damaged objects, so a digest
        goes in front.
        """
        try:
            data = path.read_bytes()
        except OSError:
            return None
        return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None

    @staticmethod
    def _write(path: Path, code: bytes) -> None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(code).digest() + code)
                # A rename is atomic: another process sees no file or a whole one.
                os.replace(temporary, path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)


@functools.cache
def _llvm() -> Any:
    """llvmlite's binding, with this machine's backend and every other that the build of LLVM has."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The parser is needed for inline assembly.
    llvm.initialize_native_asmparser()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@functools.cache
def jit() -> Jit:
    """The compiler of this process."""
    return Jit()
