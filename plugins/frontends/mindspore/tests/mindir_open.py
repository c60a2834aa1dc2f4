"""Networks whose sizes are open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from plugins.frontends.mindspore.tests.mindir_nets import cell, floats


class Dynamic(nn.Cell):
    """A network whose batch and length are open."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(6, 4)

    def construct(self, x):
        batch, length, _ = x.shape
        y = self.dense(x)
        flat = ops.reshape(y, (batch, length * 4))
        return flat, ops.mean(y, 1), y[:, 1:], ops.concat((y, y), 1), ops.reshape(y, (batch * length, 4))


def _open(*shape: Any) -> Callable[[], list[Any]]:
    return lambda: [Tensor(shape=list(shape), dtype=ms.float32)]


cell("dynamic_dense", Dynamic, floats(2, 5, 6), dynamic=_open(None, None, 6))


class DynamicNumbers(nn.Cell):
    """Arithmetic with open sizes, and a choice by them."""

    def construct(self, x):
        rows, columns = x.shape
        half = rows * columns // 2
        rest = (rows + columns) % 3 - columns
        y = ops.reshape(x, (half, 2))
        if rows > 2:
            y = y * columns
        if columns == 4:
            y = y + rest
        return y, x / rows, x * (columns - 1), x[: rows - 1]


cell("dynamic_numbers", DynamicNumbers, floats(3, 4), dynamic=_open(None, None))


class DynamicConvolution(nn.Cell):
    """Convolutions of images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.SequentialCell(
            nn.Conv2d(3, 4, 3, 2, has_bias=True),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(4, 5, 3, 1, "pad", 1),
        )
        self.head = nn.Dense(5, 2)

    def construct(self, x):
        return self.head(ops.mean(self.body(x), (2, 3)))


cell("dynamic_convolution", DynamicConvolution, floats(2, 3, 13, 16), dynamic=_open(None, 3, None, None))


class DynamicTransposed(nn.Cell):
    """Transposed convolutions of images of any size, and statistics of columns whose number is open."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList(
            [
                nn.Conv2dTranspose(3, 2, 3, 2, "same", has_bias=True),
                nn.Conv2dTranspose(3, 2, (2, 4), 3, "valid"),
                nn.Conv2dTranspose(3, 2, 4, 2, "pad", 1),
                nn.Conv2dTranspose(3, 2, 3, 2, "pad", 1, output_padding=1),
            ]
        )

    def construct(self, x):
        return tuple([layer(x) for layer in self.layers])


cell("dynamic_transposed", DynamicTransposed, floats(2, 3, 5, 6), dynamic=_open(None, 3, None, None))
cell("dynamic_columns", lambda: nn.BatchNorm1d(6), floats(3, 6), dynamic=_open(None, 6))
