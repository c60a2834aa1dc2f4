"""What a session has counted: plans made, found and evicted, runs made again, and the seconds that planning took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counters of one session since it was compiled; tails and control-flow bodies are counted like the whole graph.

    ``hits`` are runs whose input shapes had a plan, ``plans`` those that needed a new one; ``replays`` of these took
    over the decisions made for their class of sizes. ``full`` counts how often rules and planner decided, for a class
    or a shape of its own. ``evictions`` are plans
    dropped to stay within ``plan_limit`` and ``plan_memory``. ``fallbacks`` are runs made again because a kernel
    failed or met what is not finite, ``quarantined`` kernels that were put aside since they failed. ``kept`` is the
    number of plans kept now, ``plan_bytes`` an estimate of what they take, ``arena_bytes`` the memory of activations
    that they share. ``seconds`` is the time spent on planning.
    """

    plans: int = 0
    hits: int = 0
    replays: int = 0
    full: int = 0
    evictions: int = 0
    fallbacks: int = 0
    quarantined: int = 0
    kept: int = 0
    plan_bytes: int = 0
    arena_bytes: int = 0
    seconds: float = 0.0
