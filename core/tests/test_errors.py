"""What "did you mean" names: slips of the pen, and not whatever looks similar."""

from __future__ import annotations

import pytest

from autofusion.errors import nearest


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("conv.epilog", "conv.epilogue"),
        ("levle", "level"),
        ("jpg", "jpeg"),
        ("RELU", "Relu"),
        ("xx", "x"),
        ("BatchNormalisation", "BatchNormalization"),
    ],
)
def test_a_slip_is_found(name: str, known: str) -> None:
    assert nearest(name, [known, "quite/another"]) == f"; did you mean '{known}'?"


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Bucketize", "Squeeze"),
        ("StringLength", "Softsign"),
        ("Cdist", "is_not"),
        ("Cdist", "Cast"),
        ("x", "y"),
        ("", "y"),
    ],
)
def test_another_name_is_not_suggested(name: str, other: str) -> None:
    assert nearest(name, [other]) == ""


def test_the_closest_come_first() -> None:
    assert nearest("pointwise.regon", ["pointwise.reason", "pointwise.region"]).startswith(
        "; did you mean 'pointwise.region' or"
    )
