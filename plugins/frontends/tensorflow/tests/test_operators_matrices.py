"""Determinants, inverses and factors of matrices against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from plugins.frontends.tensorflow.tests.tf_operators import Cases, normal  # noqa: E402

pytestmark = pytest.mark.tensorflow

CASES = Cases()
case = CASES.add
SQUARE, STACK = normal(5, 5), normal(2, 3, 4, 4)
SWAPPED = np.float32([[0, 2, 1], [3, 0, 1], [1, 1, 0]])
POSITIVE = STACK @ np.swapaxes(STACK, -1, -2) + np.eye(4, dtype=np.float32)
case("determinant", tf.linalg.det, STACK)
for name, x in (("one", SQUARE), ("stack", STACK), ("swapped", SWAPPED)):
    case(f"inverse_{name}", tf.linalg.inv, x)
    case(f"inverse_of_the_adjoint_{name}", lambda x: tf.linalg.inv(x, adjoint=True), x)
case("solve", tf.linalg.solve, STACK, normal(2, 3, 4, 2))
case("cholesky", tf.linalg.cholesky, POSITIVE)
case("cholesky_of_one", tf.linalg.cholesky, POSITIVE[0, 0])
for lower in (False, True):
    case(
        f"triangular_{lower}",
        lambda x, y, lower=lower: tf.linalg.triangular_solve(x + 3 * tf.eye(4), y, lower=lower),
        STACK[0],
        normal(3, 4, 2),
    )


@pytest.mark.parametrize("free", [(), (0,)], ids=["static", "free"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, free: tuple[int, ...], tmp_path: Path) -> None:
    CASES.check(name, tmp_path, free if CASES[name][1][0].ndim > 2 else ())
