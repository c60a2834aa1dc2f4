"""What was measured as a table, by row and by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autofusion.testing.coverage.measure import LIMIT, Measured

Rows = dict[str, list[Measured]]


def by_row(measured: Iterable[Measured], key: Callable[[Measured], str] = lambda one: one.variant.row) -> Rows:
    """What was measured, by row, in the order of the table."""
    rows: Rows = {}
    for one in measured:
        rows.setdefault(key(one), []).append(one)
    return rows


def group_of(one: Measured) -> str:
    """``A`` of ``A1 conv_bn``."""
    return one.variant.row[0]


def lines(measured: Sequence[Measured], peers: Sequence[str], *, misses: bool = True) -> list[str]:
    """The table, the groups, and what is missed with what the ledger says of it."""
    out = _table(by_row(measured), peers)
    out += ["", *_table(by_row(measured, group_of) | {"all": list(measured)}, peers)]
    missed = [one for one in measured if not one.fused]
    if misses and missed:
        out += ["", "missed:"]
        out += [_miss(one) for one in missed]
    return out


def _table(rows: Rows, peers: Sequence[str]) -> list[str]:
    heads = "".join(f"{peer:>20}" for peer in peers)
    out = [f"{'row':28}{'fused':>20}{heads}  steps left" + (f" / {' / '.join(peers)}" if peers else "")]
    for row, ones in rows.items():
        shares = [_share(sum(one.fused for one in ones), len(ones))]
        shares += [_share(sum(one.fused_by(peer) for one in ones), len(ones)) for peer in peers]
        steps = [_mean([one.steps for one in ones])]
        steps += [_mean([one.peers[peer] for one in ones if peer in one.peers]) for peer in peers]
        ideal = _mean([one.variant.ideal for one in ones])
        worst = max(one.error for one in ones)
        tail = "" if worst <= LIMIT else f"  WRONG by {worst:.1e} of the range"
        cells = "".join(f"{share:>20}" for share in shares)
        out.append(f"{row:28}{cells}  {' / '.join(steps)} of {ideal}{tail}")
    return out


def _share(count: int, of: int) -> str:
    return f"{count}/{of} ({100 * count / max(1, of):.0f}%)"


def _mean(numbers: Sequence[int]) -> str:
    return f"{sum(numbers) / len(numbers):.1f}" if numbers else "-"


def _miss(one: Measured) -> str:
    where = f"{one.variant}" + ("" if one.spelling == "as it is" else f", {one.spelling}")
    others = "".join(f", {peer} {steps}" for peer, steps in one.peers.items())
    kernels = ", ".join(one.kernels)
    return (
        f"  {where}: {one.steps} steps of {one.variant.ideal}{others} [{kernels}]: {one.said or 'the ledger is silent'}"
    )


def as_data(measured: Iterable[Measured]) -> list[dict[str, Any]]:
    """For scripts: one entry for each spelling."""
    return [
        {
            "row": one.variant.row,
            "variant": one.variant.name,
            "spelling": one.spelling,
            "ideal": one.variant.ideal,
            "steps": one.steps,
            "peers": one.peers,
            "error": one.error,
            "fused": one.fused,
            "kernels": list(one.kernels),
            "ledger": one.said,
        }
        for one in measured
    ]
