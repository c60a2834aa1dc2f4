"""One random graph for each seed."""

from __future__ import annotations

import importlib

import numpy as np

from tests.fuzz.fuzz_make import F32, Make, Skip
from tests.fuzz.fuzz_moves import MOVES, all_moves

for _name in ("image", "pointwise", "rows", "movement", "types", "control"):
    importlib.import_module(f"tests.fuzz.fuzz_{_name}")  # registers its moves

_THEMES = ("image", "image", "rows", "rows", "movement", "any", "types", "mixed")


def random_graph(seed: int) -> Make:
    """The graph, its inputs and its values by the reference kernels. Every seed has one."""
    for attempt in range(20):
        rng = np.random.default_rng([seed, attempt])
        try:
            return _made(rng)
        except Skip:
            continue
    raise AssertionError(f"seed {seed} gives no graph")


def _made(rng: np.random.Generator) -> Make:
    m = Make(rng, specials=bool(rng.random() < 0.2))
    theme = m.choose(*_THEMES)
    for number in range(m.int(1, 3)):
        dtype = np.dtype(m.choose(*[np.float32] * 12, np.float64, np.float16))
        data = m.array(_shape(m, theme), dtype)
        m.keep(m.input(data, f"x{number}"))
        if m.maybe(0.4):
            m.keep(m.input(m.array(data.shape, dtype), f"x{number}b"))
    if m.specials:
        m.inject_specials()
    steps, tries = m.int(1, 7), 0
    while steps and tries < 40:
        tries += 1
        moves = all_moves() if theme == "mixed" or m.maybe(0.25) else MOVES[theme]
        before = len(m.pool)
        try:
            m.choose(*moves)(m)
        except Skip:
            continue
        steps -= len(m.pool) > before
    m.finish()
    return m


def _shape(m: Make, theme: str) -> tuple[int, ...]:
    def size() -> int:
        return 0 if m.maybe(0.02) else m.choose(1, 2, 3, 4, 5, 7, 8, 9)

    if theme == "image":
        spatial = m.choose(2, 2, 2, 2, 1, 3)
        return (m.choose(1, 1, 1, 2, 3), m.choose(1, 2, 3, 4, 5, 8, 16, 17, 32), *(size() for _ in range(spatial)))
    if theme == "rows":
        lead = [size() for _ in range(m.choose(1, 2, 2, 3, 3, 0))]
        return (*lead, m.choose(1, 2, 4, 6, 8, 16, 17, 33))
    return tuple(size() for _ in range(m.int(0, 4)))


__all__ = ["F32", "random_graph"]
