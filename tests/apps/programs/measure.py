"""Times a program's parts and writes them down with its answers, for the process that started it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

REPEATS = 3


def measure(make: Callable[[], Any], call: Callable[[Any, Any], dict[str, Any]], items: Sequence[Any]) -> None:
    """Make the application, call it on every item, then on all again; write answers and seconds as JSON.

    The file is the program's argument. ``load`` is the time to make it, ``calls`` those of the items as they first
    come, ``steady`` the median of an item's time when all have been seen. Answers are of the first round.
    """
    started = time.perf_counter()
    made = make()
    load = time.perf_counter() - started
    answers, calls = [], []
    for item in items:
        started = time.perf_counter()
        answers.append(call(made, item))
        calls.append(time.perf_counter() - started)
    again = []
    for _ in range(REPEATS):
        for item in items:
            started = time.perf_counter()
            call(made, item)
            again.append(time.perf_counter() - started)
    record = {"answers": answers, "load": load, "calls": calls, "steady": float(np.median(again))}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(record, file, default=_plain)


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy as Python's."""
    return value.tolist()
