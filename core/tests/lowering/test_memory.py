"""No two buffers that live at the same time share a byte, and borders are only shared by equal geometry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autofusion.lowering.memory import Request, place

_requests = st.lists(
    st.builds(
        lambda nbytes, first, length, key: Request(nbytes * 64, first, first + length, key),
        st.integers(1, 20),
        st.integers(0, 30),
        st.integers(0, 8),
        st.sampled_from([None, None, "a", "b"]),
    ),
    max_size=40,
)


def _same_size_by_key(requests: list[Request]) -> list[Request]:
    sizes: dict[object, int] = {}
    return [
        r if r.key is None else Request(sizes.setdefault(r.key, r.nbytes), r.first, r.last, r.key) for r in requests
    ]


@given(_requests)
def test_buffers_alive_together_are_apart(requests: list[Request]) -> None:
    requests = _same_size_by_key(requests)
    offsets, size = place(requests)
    for i, (a, at) in enumerate(zip(requests, offsets, strict=True)):
        assert at % 64 == 0
        assert at + a.nbytes <= size
        for b, other in list(zip(requests, offsets, strict=True))[i + 1 :]:
            apart_in_memory = at + a.nbytes <= other or other + b.nbytes <= at
            apart_in_time = a.last < b.first or b.last < a.first
            assert apart_in_memory or apart_in_time
            if a.key != b.key:
                # Someone else's data would dirty a border.
                assert apart_in_memory or (a.key is None and b.key is None)


def test_memory_is_reused() -> None:
    chain = [Request(1 << 20, i, i + 1) for i in range(50)]
    _, size = place(chain)
    assert size == 2 << 20


def test_nothing_needs_nothing() -> None:
    assert place([]) == ([], 0)
