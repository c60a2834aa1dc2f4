"""Networks whose control flow is that of Python: conditions, loops, and what leaves them early."""

from __future__ import annotations

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from plugins.frontends.mindspore.tests.mindir_nets import cell, floats


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
