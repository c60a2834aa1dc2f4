"""Mutated inputs: model files of three formats, locks, settings and ledgers are read, or refused by an error of ours.

    python -m tests.fuzz.mutate [COUNT] [SEED]

Every mutation is made from its number alone, so that one that fails can be made again: ``mutated(data, number)``.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import autofusion as af
from autofusion.errors import AutofusionError
from autofusion.plugins import lock
from autofusion.runtime.config import read_settings
from autofusion.tools import ledger_diff

CASES = Path(__file__).parents[1] / "cases"
LOCK = """format = 1
[fusion]
level = "full"
disable = ["conv"]
[[pack]]
name = "conv"
dist = "autofusion-rules-conv"
version = "0.1.0"
"""
SETTINGS = """[fusion]
level = "basic"
threads = 2
disable = ["conv", "layout"]
memory_budget = "64M"
flush_denormals = true
[fusion.priorities]
"conv.epilogue" = "early+5"
"""
LEDGER = '{"format": 1, "model": "m", "records": [{"rule": "a.b", "site": "n", "nodes": ["n"], "verdict": "fused"}]}'

Read = Callable[[Path], object]
SOURCES: dict[str, tuple[str, Read, tuple[bytes, ...]]] = {
    kind: (suffix, af.load, tuple(p.read_bytes() for p in sorted(CASES.glob(f"*/model{suffix}"))[:12]))
    for kind, suffix in (("onnx", ".onnx"), ("tensorflow", ".pb"), ("mindspore", ".mindir"))
} | {
    "lock": (".lock", lock.read, (LOCK.encode(),)),
    "settings": (".toml", lambda path: read_settings(path, ()), (SETTINGS.encode(),)),
    "ledger": (".json", ledger_diff.read, (LEDGER.encode(),)),
}


def mutated(data: bytes, number: int) -> bytes:
    """``data`` with one to four changes: bits, bytes, numbers, pieces left out, repeated or moved, an early end."""
    chosen, made = random.Random(number), bytearray(data)
    for _ in range(chosen.randint(1, 4)):
        at = chosen.randrange(len(made) + 1)
        size = min(chosen.choice((1, 2, 8, 64)), len(made) - at)
        match chosen.randrange(7):
            case 0 if size:
                made[at] ^= 1 << chosen.randrange(8)
            case 1 if size:
                made[at] = chosen.choice((0, 1, 0x7F, 0x80, 0xFF, chosen.randrange(256)))
            case 2:
                del made[at : at + size]
            case 3:
                made[at:at] = made[at : at + size] * chosen.choice((1, 2, 100))
            case 4:
                made[at : at + size] = bytes(chosen.randrange(256) for _ in range(size))
            case 5:
                to = chosen.randrange(len(made) + 1)
                made[to:to] = made[at : at + size]
            case 6:
                made[at : at + size] = b"\xff" * size
    if chosen.random() < 0.1:
        del made[chosen.randrange(len(made) + 1) :]
    return bytes(made)


def failures(kind: str, count: int, seed: int = 0) -> Iterator[str]:
    """What is neither read nor refused, of ``count`` mutations of the files of a kind."""
    suffix, read, sources = SOURCES[kind]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(seed, seed + count):
            path = Path(folder) / f"m{suffix}"
            path.write_bytes(mutated(sources[number % len(sources)], number))
            try:
                read(path)
            except AutofusionError:
                pass
            except Exception as error:
                yield f"{kind} {number}: {type(error).__name__}: {error}"


def main(count: int, seed: int) -> int:
    """Try ``count`` mutations of each kind; print what fails."""
    found = 0
    for kind in SOURCES:
        for line in failures(kind, count, seed):
            found += 1
            print(line, flush=True)
        print(f"{kind}: {count} mutations", flush=True)
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
