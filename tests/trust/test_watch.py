"""Watching inside every fused site of real models: the values are right, and watching changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autofusion as af
import zoo
from autofusion.cli import cli

TOLERANCE = 1e-5
"""Of a value's range. Where level off is itself away from a double-precision run, its distance comes on top: rounding
the folded weights alone moves the detector's last sigmoid by 1.5e-5.
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppocrv4_det", "ppocrv4_rec"])
def test_every_node_inside_every_fused_site(name: str) -> None:
    from autofusion.tools.verify.exact import exact_values

    inputs = zoo.inputs(name, 0)
    shapes = {key: value.shape for key, value in inputs.items()}
    full = af.compile(zoo.model_path(name), shapes=shapes, threads=2)
    off = af.compile(zoo.model_path(name), shapes=shapes, threads=2, level="off")
    inside = sorted({origin for s in full.plan.steps if s.node.op == "Fused" for origin in s.node.origin})
    assert len(inside) > 200
    plain, watched = full.run(inputs), full.watch(inside, inputs)
    for key, value in plain.items():
        np.testing.assert_array_equal(watched.outputs[key], value)
    expected = off.watch(inside, inputs).values
    assert watched.values.keys() == expected.keys()
    exact = exact_values(full.source, inputs, list(expected))
    close = 0
    for key, want in expected.items():
        got = watched.values[key]
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        span = float(np.ptp(exact[key])) or float(np.abs(exact[key]).max()) or 1.0
        own = float(np.abs(want - exact[key]).max()) / span
        away = float(np.abs(got.astype(np.float64) - want).max()) / span
        assert away <= TOLERANCE + own, f"'{key}': {away:.2e} of its range away, level off is {own:.2e} off itself"
        close += away <= TOLERANCE
    assert close >= 0.99 * len(expected)


def test_the_command_line_shows_and_saves_them(tmp_path: Path) -> None:
    model, inputs = zoo.model_path("ppocr_cls"), zoo.inputs("ppocr_cls")
    data, saved = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(data, **inputs)
    session = af.compile(model, shapes={k: v.shape for k, v in inputs.items()})
    fused = next(s.node for s in session.plan.steps if s.node.op == "Fused")
    node, value = fused.origin[0], fused.body.nodes[0].output.name
    arguments = ["run", str(model), "--data", str(data), "-o", str(saved), "--watch", node, "--watch", value]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert f"watched {value}: f32[" in done.output
    archive = np.load(saved)
    np.testing.assert_array_equal(archive[value], session.watch([value], inputs).values[value])
    for key, output in session.run(inputs).items():
        np.testing.assert_array_equal(archive[key], output)
