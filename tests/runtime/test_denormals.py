"""The option to take denormal floats for zero: in native code on every thread, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import autofusion as af
from autofusion.errors import OptionError
from autofusion.ir.text import from_text

GRAPH = """
graph @g(%x: f32[64, 300]) -> (f32[64, 300]) {
  %0 = constant dense<0.5> : f32[]
  %h = Mul(%x, %0) : f32[64, 300]
  %y = Add(%h, %x) : f32[64, 300]
  return %y
}
"""
TINY = np.finfo(np.float32).tiny


@pytest.mark.parametrize("threads", [1, 2])
def test_denormals_are_kept_unless_they_are_to_be_flushed(threads: int) -> None:
    x = np.full((64, 300), TINY / 4, np.float32)
    x[:, 1] = TINY  # half of it is a denormal
    x[:, 2] = -3.0
    kept = af.compile(from_text(GRAPH), threads=threads)
    flushed = af.compile(from_text(GRAPH), threads=threads, flush_denormals=True)
    expected = x * np.float32(0.5) + x
    for _ in range(3):  # in turns on the same threads
        assert np.array_equal(kept.run({"x": x})["y"], expected)
        y = flushed.run({"x": x})["y"]
        assert (y[:, 0] == 0).all() and (y[:, 3:] == 0).all()
        assert (y[:, 1] == TINY).all() and (y[:, 2] == -4.5).all()
        assert np.float32(TINY) * np.float32(0.5) != 0, "the caller's thread is as it was"


def test_the_option_is_read_from_the_environment_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSION_FLUSH_DENORMALS", "true")
    session = af.compile(from_text(GRAPH), threads=1)
    assert session.context.options.flush_denormals and session.context.target.flush_denormals
    assert not af.compile(from_text(GRAPH), threads=1, flush_denormals=False).context.target.flush_denormals
    monkeypatch.setenv("AUTOFUSION_FLUSH_DENORMALS", "yes please")
    with pytest.raises(OptionError, match="AUTOFUSION_FLUSH_DENORMALS is 'yes please', expected true or false"):
        af.compile(from_text(GRAPH), threads=1)
