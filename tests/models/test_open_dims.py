"""A model of open sizes is fused where the same model of fixed sizes is, and near sizes where their class is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autofusion as af
from autofusion.fusion.ledger import Verdict
from autofusion.ir.types import TensorType
from autofusion.runtime.session import Session
from tests.zoo import zoo

QUICK = ("ppocr_cls",)


def _params() -> list[Any]:
    """Every model of the second group and of images that is not a folder; those without open sizes are skipped."""
    names = [name for name, model in zoo.MODELS.items() if model.group in ("first", "second") and not model.directory]
    return [pytest.param(n, id=n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in names]


def _sites(session: Session) -> set[tuple[str, tuple[str, ...]]]:
    return {(r.rule, r.nodes) for r in session.ledger.records if r.verdict is Verdict.FUSED and r.kind}


def _fixed(session: Session, inputs: dict[str, np.ndarray]) -> Session:
    graph = session.source.copy()
    for value in graph.inputs:
        if isinstance(value.type, TensorType) and value.name in inputs:
            value.type = value.type.with_shape(inputs[value.name].shape)
    return af.compile(graph, threads=1)


@pytest.mark.parametrize("name", _params())
def test_fused_sites_are_those_of_fixed_sizes(name: str) -> None:
    session = af.compile(zoo.model_path(name), threads=1)
    if all(isinstance(v.type, TensorType) and v.type.is_static for v in session.source.inputs):
        pytest.skip("its sizes are fixed")
    for case in range(len(zoo.MODELS[name].cases)):
        # A session of its own: the ledger tells of every branch that has run.
        inputs, session = zoo.inputs(name, case), af.compile(zoo.model_path(name), threads=1)
        found = session.run(inputs)
        fixed = _fixed(session, inputs)
        expected = fixed.run(inputs)
        mine, theirs = _sites(session), _sites(fixed)
        assert mine == theirs, f"only with open sizes {mine - theirs}, only with fixed ones {theirs - mine}"
        for key, want in expected.items():
            np.testing.assert_allclose(found[key], want, rtol=1e-3, atol=1e-4)
