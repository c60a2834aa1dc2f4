"""Machine code in this process: compiled through LLVM, or loaded from the cache of objects (`native.cache`).

Compilation takes 5 to 40 ms a kernel and loading an object 0.2 ms. An object is found by what determines it without
its text being written: a digest of these generators, the structure of the kernel, the processor and its features, the
versions of LLVM and NumPy. Objects of modules without a structure of their own are found by their text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import autofusion.ir
from autofusion.kernels import KernelError, forks_wait, renew_after_fork
from autofusion_kernels_cpu.codegen.builder import Module
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.native.cache import ObjectCache, cache_folders, cache_limit

LOG = logging.getLogger("autofusion.kernels.cpu")
# Part of every key: raise it when the way objects are made or called changes.
FORMAT = b"autofusion-object-2"


@dataclasses.dataclass
class Counters:
    """What the process has done so far: a new input shape must leave `compiled` as it was."""

    compiled: int = 0
    cached: int = 0
    compile_ms: float = 0.0
    load_ms: float = 0.0

    def snapshot(self) -> Counters:
        return dataclasses.replace(self)


class Structured(Protocol):
    """A kernel known by its structure (`native.kernel.Kernel`)."""

    @property
    def name(self) -> str:
        """Of the exported function."""
        ...

    @property
    def isa(self) -> Isa:
        """What it is compiled for."""
        ...

    @property
    def structure(self) -> str:
        """Equal for kernels of equal code, different for others."""
        ...

    def module(self) -> Module:
        """The code, written out."""
        ...


class Jit:
    """Compiles, caches and loads modules into this process. Thread-safe. Code lives until the process ends."""

    def __init__(self, folder: Path | None = None) -> None:
        self.counters = Counters()
        self._folder = folder
        self._known: dict[tuple[str, str], dict[str, int]] = {}
        self._origins: dict[int, tuple[str, Callable[[], bytes]]] = {}
        """Address of a function -> its symbol, and what finds the object that it came from."""
        self._machines: dict[Isa, Any] = {}
        self._engine: Any = None
        self.renew_lock()
        renew_after_fork(self)

    def renew_lock(self) -> None:
        """A lock that nobody holds: for the start, and for the child after a fork."""
        self._lock = threading.RLock()

    def address(self, kernel: Structured) -> int:
        """The address of a kernel; its text is only written if no process has compiled its structure before."""
        key = kernel.isa.name, kernel.structure
        known = self._known.get(key)
        if known is None:
            digest = _digest(generator_digest(), kernel.structure.encode())
            known = self._load(key, kernel.isa, digest, (kernel.name,), kernel.module)
        return known[kernel.name]

    def kernel(self, module: Module) -> int:
        """The address of the module's only kernel."""
        (address,) = self.load(module).values()
        return address

    def load(self, module: Module) -> dict[str, int]:
        """The address of every exported function, by its name. Modules of equal text are loaded once."""
        text = module.text()
        digest = _digest(text.encode())
        key = module.isa.name, text
        return self._known.get(key) or self._load(key, module.isa, digest, module.exports, lambda: module)

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

    def saved(self, address: int) -> tuple[str, bytes]:
        """The symbol of a function of this compiler, and the object that holds it."""
        symbol, find = self._origins[address]
        return symbol, find()

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

    @functools.cached_property
    def cache(self) -> ObjectCache:
        """Where objects are kept."""
        return ObjectCache(cache_folders() if self._folder is None else (self._folder,), cache_limit())

    def _load(
        self, key: tuple[str, str], isa: Isa, digest: str, exports: Sequence[str], write: Callable[[], Module]
    ) -> dict[str, int]:
        """Addresses of `exports` of the module that `write` makes, from the cache if it has them."""
        with forks_wait(), self._lock:
            if key not in self._known:
                self._known[key] = self._found(isa, digest, exports, write)
            return self._known[key]

    def _found(self, isa: Isa, digest: str, exports: Sequence[str], write: Callable[[], Module]) -> dict[str, int]:
        # The names carry the instruction set as well: one process may hold the same kernel for two of them.
        suffix = f".{isa.name}.{digest[:24]}"
        names = [(name, name + suffix) for name in exports]
        version = repr(_llvm().llvm_version_info).encode()
        path = _digest(FORMAT, digest.encode(), isa.triple.encode(), isa.cpu.encode(), isa.features.encode(), version)
        cached = self.cache.read(path)
        if cached is not None:
            with contextlib.suppress(RuntimeError, OSError):
                addresses = self._add(cached, names, path, write, suffix)
                self.counters.cached += 1
                LOG.debug("kernel '%s' for %s comes from the cache", exports[0], isa.name)
                return addresses
        started = time.perf_counter()
        try:
            code = self.object_code(write(), suffix)
        except RuntimeError as error:
            raise KernelError(
                f"generated kernel '{exports[0]}' is not valid LLVM IR: expected it to parse and verify, found: {error}"
            ) from error
        taken = (time.perf_counter() - started) * 1e3
        self.counters.compiled += 1
        self.counters.compile_ms += taken
        LOG.info("kernel '%s' for %s is not in the cache: compiled in %.1f ms", exports[0], isa.name, taken)
        self.cache.write(path, code)
        return self._add(code, names, path, write, suffix)

    def _add(
        self, code: bytes, names: Sequence[tuple[str, str]], path: str, write: Callable[[], Module], suffix: str
    ) -> dict[str, int]:
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
        find = functools.partial(self._object, path, write, suffix)
        self._origins |= {addresses[name]: (symbol, find) for name, symbol in names}
        self.counters.load_ms += (time.perf_counter() - started) * 1e3
        return addresses

    def _object(self, path: str, write: Callable[[], Module], suffix: str) -> bytes:
        return self.cache.read(path) or self.object_code(write(), suffix)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"|".join(parts)).hexdigest()


@functools.cache
def generator_digest() -> bytes:
    """What equal structures make equal code by: the sources of these generators and of the operators they read."""
    digest = hashlib.sha256(np.__version__.encode())  # tables of coefficients are computed with it
    for root in (Path(__file__).parent.parent, Path(autofusion.ir.__file__).parent):
        for folder, inner, names in os.walk(root):
            inner.sort()
            for name in sorted(name for name in names if name.endswith(".py")):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    source = file.read()
                digest.update(f"{os.path.relpath(path, root)}:{len(source)}:".encode() + source)
    return digest.digest()


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
