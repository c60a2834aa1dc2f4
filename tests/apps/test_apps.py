"""Programs from PyPI give the same answers whether onnxruntime or the stand-in runs their models."""

from __future__ import annotations

import pytest

from tests.apps import apps


@pytest.mark.slow
@pytest.mark.parametrize("name", apps.PROGRAMS)
def test_answers_are_the_same(name: str) -> None:
    expected, found = apps.run(name, drop_in=False), apps.run(name, drop_in=True)
    assert any(any(answer.values()) for answer in expected.answers), "the program found nothing to compare"
    assert not apps.differences(name, expected, found)


def test_differences_are_told() -> None:
    def record(**answer: object) -> apps.Record:
        return apps.Record([answer], 0.0, [0.0], 0.0)

    near = record(texts=["a"], boxes=[[1, 2]], scores=[0.5], hertz=[200.0])
    assert not apps.differences("", near, record(texts=["a"], boxes=[[1.9, 2]], scores=[0.50009], hertz=[200.01]))
    for wrong in (
        record(texts=["b"], boxes=[[1, 2]], scores=[0.5], hertz=[200.0]),
        record(texts=["a"], boxes=[[2.1, 2]], scores=[0.5], hertz=[200.0]),
        record(texts=["a"], boxes=[[1, 2]], scores=[0.5002], hertz=[200.0]),
        record(texts=["a"], boxes=[[1, 2]], scores=[0.5], hertz=[200.1]),
        record(texts=["a"], boxes=[[1, 2], [3, 4]], scores=[0.5], hertz=[200.0]),
        record(texts=["a"]),
    ):
        assert len(apps.differences("", near, wrong)) == 1
