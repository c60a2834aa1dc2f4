"""Networks that are programs: tuples, state, control flow, open sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindir_nets import cell, floats
from mindspore import Parameter, Tensor, nn, ops


class Nested(nn.Cell):
    """Results in nested tuples, with a number among them, and one of them an operand."""

    def construct(self, x, y):
        a, b = ops.split(x, 2, 1)
        return (a, (b, x.shape[0]), ((y,), x + y[0, 0]))


cell("nested_tuples", Nested, floats(2, 4), floats(2, 3))


class Through(nn.Cell):
    """A network without a node."""

    def construct(self, x):
        return x


cell("through", Through, floats(2, 3))


class Shared(nn.Cell):
    """One parameter used by two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 4)
        self.second = nn.Dense(4, 4)
        self.second.weight = self.first.weight

    def construct(self, x):
        return self.second(self.first(x))


cell("shared_parameter", Shared, floats(2, 4))


class Counter(nn.Cell):
    """A parameter read, added to, read again, and assigned from what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.p = Parameter(Tensor(np.array([1.0, 2.0], np.float32)), name="p")
        self.q = Parameter(Tensor(np.array([5.0, 5.0], np.float32)), name="q")

    def construct(self, x):
        before = self.p * x
        ops.assign_add(self.p, x)
        between = self.p * 10
        self.q = self.p - x
        ops.assign_sub(self.p, self.q)
        return before, between, self.p + self.q, self.q * 1


cell("counter", Counter, floats(2))


class AssignInBranch(nn.Cell):
    """A parameter assigned in one branch only."""

    def __init__(self) -> None:
        super().__init__()
        self.p = Parameter(Tensor(np.array([1.0, 2.0], np.float32)), name="p")

    def construct(self, x):
        if x.sum() > 0:
            self.p = self.p + x
        return self.p * 2


cell("assign_in_branch_taken", AssignInBranch, np.array([1.0, 2.0], np.float32))
cell("assign_in_branch_not_taken", AssignInBranch, np.array([-1.0, -2.0], np.float32))


class AssignInLoop(nn.Cell):
    """A parameter assigned in every iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.p = Parameter(Tensor(np.ones(2, np.float32)), name="p")

    def construct(self, x, n):
        i = n * 0
        while i < n:
            self.p = self.p + x
            i = i + 1
        return self.p * 2


cell("assign_in_loop", AssignInLoop, floats(2), np.int32(3))


class InPlace(nn.Cell):
    """Tensors modified in place: read before, read after, and under another name."""

    def construct(self, x, y):
        a = x * 2
        before = ops.relu(a)
        a += y
        b = a
        a *= 3
        a -= y
        return before, before + a, b


cell("in_place", InPlace, floats(3), floats(3))


class While(nn.Cell):
    def construct(self, x, n):
        i = n * 0
        while i < n:
            x = x * 2 + 1
            i = i + 1
        return x + i


cell("while", While, floats(3), np.int32(4))
cell("while_never", While, floats(3), np.int32(0))


class Break(nn.Cell):
    def construct(self, x, n):
        i = n * 0
        while i < n:
            x = x * 2 + 1
            if x.sum() > 100:
                break
            i = i + 1
        return x + i


cell("break", Break, np.ones(2, np.float32), np.int32(30))
cell("break_not_reached", Break, np.ones(2, np.float32), np.int32(2))


class Continue(nn.Cell):
    def construct(self, x, n):
        i = n * 0
        while i < n:
            i = i + 1
            if i == 2:
                continue
            x = x + i
        return x, i


cell("continue", Continue, floats(2), np.int32(4))


class Return(nn.Cell):
    """A result from inside a loop."""

    def construct(self, x, n):
        i = n * 0
        while i < n:
            x = x * 3
            if x.sum() > 50:
                return x, i * 100
            i = i + 1
        return x - 1, i


cell("return_from_loop", Return, np.ones(2, np.float32), np.int32(9))
cell("return_after_loop", Return, np.ones(2, np.float32), np.int32(1))


class Loops(nn.Cell):
    """A loop in a loop, an if in it, and another loop after it."""

    def construct(self, x, n):
        i = n * 0
        total = x * 0
        while i < n:
            j = n * 0
            while j < i:
                if x.sum() > 0:
                    total = total + x * j
                else:
                    total = total - x
                j = j + 1
            i = i + 1
        while total.sum() > 10:
            total = total / 2
        return total, i


cell("nested_loops", Loops, np.ones(3, np.float32), np.int32(5))


class LoopThenUse(nn.Cell):
    """A loop in a method, whose results are used further on."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 4)

    def iterate(self, x, n):
        i = n * 0
        while i < n:
            x = ops.tanh(self.dense(x))
            i = i + 1
        return x, i

    def construct(self, x, n):
        y, i = self.iterate(x, n)
        z, j = self.iterate(y, n)
        return y + z, i + j


cell("loop_in_method", LoopThenUse, floats(2, 4), np.int32(3))


class Branches(nn.Cell):
    """Nested ifs, elif, and a branch that gives a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Dense(3, 3)
        self.right = nn.Dense(3, 3)

    def construct(self, x, flag):
        if flag > 1:
            a, b = self.left(x), x * 2
        elif flag > 0:
            a, b = self.right(x), x
            if x.sum() > 0:
                b = b + 1
        else:
            a, b = x, x - 1
        return a + b, b


for _number, _flag in enumerate((2, 1, 0)):
    cell(f"branches_{_number}", Branches, np.abs(floats(2, 3)), np.int32(_flag))


class Layers(nn.Cell):
    """A layer chosen by number."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList([nn.ReLU(), nn.Tanh(), nn.Dense(4, 4)])

    def construct(self, x, i):
        return self.layers[i](x) + 1


for _number in (0, 2, -2):
    cell(f"switch_layer_{_number}".replace("-", "m"), Layers, floats(2, 4), np.int32(_number))


class ReturnInBranch(nn.Cell):
    """One branch returns, the other goes on."""

    def construct(self, x):
        if x.sum() > 0:
            return x * 2
        y = x - 1
        if y.sum() < -100:
            return y
        return y * 3


cell("return_in_branch_0", ReturnInBranch, np.ones(2, np.float32))
cell("return_in_branch_1", ReturnInBranch, -np.ones(2, np.float32))


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


class WhileTrue(nn.Cell):
    def construct(self, x, n):
        i = n * 0
        while True:
            x = x + 1
            i = i + 1
            if i >= n:
                break
        return x, i


cell("while_true", WhileTrue, floats(3), np.int32(6))


class BreakAndContinue(nn.Cell):
    def construct(self, x, n):
        i = n * 0
        total = x * 0
        while i < n:
            i = i + 1
            if i == 2:
                continue
            if i == 5:
                break
            total = total + x * i
        return total, i


cell("break_and_continue", BreakAndContinue, floats(3), np.int32(6))


class ReturnFromInner(nn.Cell):
    """A result from inside a loop in a loop."""

    def construct(self, x, n):
        i = n * 0
        while i < n:
            j = n * 0
            while j < n:
                x = x + 1
                if i * j == 2:
                    return x, j
                j = j + 1
            i = i + 1
        return x * 0, i


cell("return_from_inner_loop", ReturnFromInner, floats(3), np.int32(4))
cell("return_after_inner_loop", ReturnFromInner, floats(3), np.int32(1))


class Mixed(nn.Cell):
    """Ifs without else, a return in between, and a loop at the end."""

    def construct(self, x, flag):
        y = x
        if flag > 0:
            y = ops.relu(y)
        if flag > 1:
            y = y + 1
        elif flag > 0:
            y = y * 3
        if flag < 0:
            return y
        while y.sum() < 100:
            y = y + 10
        return y - 1


cell("mixed_1", Mixed, floats(3), np.int32(1))
cell("mixed_m1", Mixed, floats(3), np.int32(-1))


class LoopInBranch(nn.Cell):
    def construct(self, x, n):
        if n > 2:
            i = n * 0
            while i < n:
                x = x * 1.5
                i = i + 1
            y = x + 1
        else:
            y = x
        return y * 2


cell("loop_in_branch", LoopInBranch, floats(3), np.int32(4))


class LoopWithState(nn.Cell):
    """Weights, and a parameter that some iterations assign."""

    def __init__(self) -> None:
        super().__init__()
        self.p = Parameter(Tensor(floats(3)), name="p")
        self.dense = nn.Dense(3, 3)

    def construct(self, x, n):
        i = n * 0
        while i < n:
            x = ops.reshape(self.dense(ops.reshape(x, (1, 3))), (3,)) + self.p
            if x.sum() > 0:
                self.p = self.p * 0.5
            i = i + 1
        return x


cell("loop_with_state", LoopWithState, floats(3), np.int32(5))


class LoopInPlace(nn.Cell):
    def construct(self, x, n):
        i = n * 0
        y = x * 1
        while i < n:
            y += x
            i += 1
        return y, x


cell("loop_in_place", LoopInPlace, floats(3), np.int32(5))


class LoopOfTuples(nn.Cell):
    def construct(self, x, n):
        pair = (x, (x + 1, 2))
        while n > 0:
            pair = (pair[0] * 2, (pair[1][0] + pair[0], 2))
            n = n - 1
        return pair


cell("loop_of_tuples", LoopOfTuples, floats(3), np.int32(2))


class LoopOfLayers(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])

    def construct(self, x, n):
        i = n * 0
        while i <= n:
            x = self.layers[i](x) + 0.1
            i = i + 1
        return x


cell("loop_of_layers", LoopOfLayers, floats(3), np.int32(2))


class Results(nn.Cell):
    """A parameter, an operand twice, numbers, and a dictionary as results; printing on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.p = Parameter(Tensor(floats(2, 3)), name="p")

    def construct(self, x):
        print("x is", x)
        named = {"a": x + 1, "b": x * 2}
        return self.p, x, x, 3, 2.5, True, named


cell("results", Results, floats(2, 3))


class SetItems(nn.Cell):
    """Assignments to parts of a tensor."""

    def construct(self, x, y):
        x[1] = y
        x[:, 2] = 0
        x[0, 1:3] = y[:2]
        z = x * 2
        z[z > 0] = 9.0
        return x, z


cell("set_items", SetItems, floats(3, 4), floats(4))


class ScatterState(nn.Cell):
    """Parts of parameters assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.p = Parameter(Tensor(floats(4, 2)), name="p")
        self.q = Parameter(Tensor(floats(2, 2)), name="q")

    def construct(self, x, at):
        before = self.p * 1
        ops.scatter_add(self.p, at, x)
        between = self.p * 1
        ops.scatter_nd_update(self.p, ops.expand_dims(at, 1), x)
        self.q[0] = x[1]
        return before, between, self.p * 2, self.q * 1


cell("scatter_state", ScatterState, floats(2, 2), np.array([0, 2], np.int32))


class Masked(nn.Cell):
    """A result whose size is only known when it runs."""

    def construct(self, x):
        return x[x > 0] * 2


cell("masked", Masked, floats(3, 4))
