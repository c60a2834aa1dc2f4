"""Networks that are programs: tuples, state, assignments in place."""

from __future__ import annotations

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from plugins.frontends.mindspore.tests.mindir_nets import cell, floats


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
