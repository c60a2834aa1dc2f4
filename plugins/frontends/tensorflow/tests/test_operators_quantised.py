"""Quantised numbers against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import autofusion as af  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_graphs import check, frozen, specs_of  # noqa: E402
from plugins.frontends.tensorflow.tests.tf_operators import Cases, integers, normal  # noqa: E402

pytestmark = pytest.mark.tensorflow

raw = tf.raw_ops
CASES = Cases()
case = CASES.add
X = normal(3, 4, 5)

for signed in (False, True):
    for narrow in (False, True):
        for rounding in ("HALF_TO_EVEN", "HALF_UP"):
            options = {"signed_input": signed, "narrow_range": narrow, "round_mode": rounding}
            for low, high in ((-1.3, 0.9), (-0.5, 2.1)):
                case(
                    f"both_{signed}_{narrow}_{rounding}_{low}",
                    lambda x, o=options, low=low, high=high: raw.QuantizeAndDequantizeV4(
                        input=x, input_min=low if o["signed_input"] else 0.0, input_max=high, range_given=True, **o
                    ),
                    X,
                )
            case(
                f"both_by_data_{signed}_{narrow}_{rounding}",
                lambda x, o=options: raw.QuantizeAndDequantizeV2(
                    input=x if o["signed_input"] else tf.abs(x), input_min=0.0, input_max=0.0, range_given=False, **o
                ),
                X,
            )
case(
    "both_along_an_axis",
    lambda x: raw.QuantizeAndDequantizeV2(
        input=x, input_min=np.zeros(4, np.float32), input_max=np.zeros(4, np.float32), range_given=False, axis=1
    ),
    X,
)
case("both_version_3", lambda x: raw.QuantizeAndDequantizeV3(input=x, input_min=-1.0, input_max=1.5, num_bits=4), X)

for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
    for dtype in (tf.quint8, tf.qint8):

        def there(x, mode=mode, dtype=dtype):
            made = raw.QuantizeV2(input=x, min_range=-1.5, max_range=2.0, T=dtype, mode=mode)
            return (
                tf.bitcast(made.output, tf.uint8 if dtype == tf.quint8 else tf.int8),
                made.output_min,
                made.output_max,
            )

        def back(x, mode=mode, dtype=dtype):
            made = raw.QuantizeV2(input=x, min_range=-1.5, max_range=2.0, T=dtype, mode=mode)
            return raw.Dequantize(input=made.output, min_range=made.output_min, max_range=made.output_max, mode=mode)

        case(f"there_{mode}_{dtype.name}", there, X)
        case(f"back_{mode}_{dtype.name}", back, X)


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    CASES.check(name, tmp_path)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("bfloat16", "int8", "bfloat16")],
)
def test_products_are_added_up_in_the_type_of_the_result(left: str, right: str, result: str, tmp_path: Path) -> None:
    a, b = integers(0, 120, 2, 3, 40), integers(-120, 120, 2, 40, 5)

    def function(x, y):
        x, y = tf.cast(x, left), tf.cast(y, right)
        return tf.cast(raw.BatchMatMulV3(x=x, y=y, Tout=tf.as_dtype(result)), tf.float32)

    path = frozen(tmp_path / "m.pb", function, specs_of([a, b]))
    if result == "int32":
        check(path, {"x0": a, "x1": b}, rtol=0, atol=0)
    else:
        got = af.compile(path).run({"x0": a, "x1": b})["Identity"]
        np.testing.assert_allclose(got, a.astype(np.float32) @ b.astype(np.float32), rtol=0.02, atol=2000)
