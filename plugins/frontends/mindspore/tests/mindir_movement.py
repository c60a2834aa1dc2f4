"""Networks of a few primitives each that shape, join, cut, pick, find and make elements."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn, ops

from plugins.frontends.mindspore.tests.mindir_nets import cell, floats, ints, net


def shapes(x):
    return (
        ops.reshape(x, (4, -1)),
        ops.transpose(x, (2, 0, 1)),
        x.swapaxes(0, 2),
        ops.expand_dims(x, 1),
        ops.expand_dims(x, -1),
        ops.squeeze(ops.expand_dims(x, 1), 1),
        ops.flatten(x),
        ops.flatten(x, start_dim=1),
        ops.tile(x, (2, 1, 3)),
        ops.tile(x, (2, 1, 1, 2)),
        ops.broadcast_to(ops.expand_dims(x, 0), (5, -1, -1, -1)),
        x.view(-1),
        x.T,
        ops.flip(x, (0, 2)),
        ops.rot90(x, 1, (0, 1)),
        ops.moveaxis(x, 0, 2),
        ops.repeat_interleave(x, 2, 1),
        x.reshape(x.shape[0], -1),
        ops.unsqueeze(x, 0),
    )


net(shapes, floats(2, 3, 4))


def joining(x, y):
    a, b, c = ops.split(x, 2, 1)
    d, e = ops.split(x, (4, 2), 1)
    u, v = ops.unbind(y, 0)
    p, q = ops.chunk(y, 2, 2)
    g, h = ops.meshgrid(y[0, 0], y[0, 1])
    return (
        ops.concat((x, x * 2), 1),
        ops.concat((x, x, x), 0),
        ops.stack((x, x + 1), 1),
        ops.stack([x, x], -1),
        a,
        c - b,
        d,
        e,
        u + v,
        p,
        q,
        g,
        h,
        ops.vstack((x, x)),
        ops.hstack((x, x)),
    )


net(joining, floats(2, 6), floats(2, 3, 4))


def slicing(x, i):
    return (
        x[0],
        x[1:],
        x[:, 1],
        x[..., 0],
        x[:, 1:3, ::2],
        x[:, :, -2:],
        x[None, 0],
        x[:, None],
        x[-1, :, 1:],
        x[:, ::-1] * 1,
        x[0, 1, 2],
        x[:, -1],
        x[:, 0:1],
        ops.slice(x, (0, 1, 1), (2, 2, 3)),
        ops.narrow(x, 1, 1, 2),
        x[..., None, 1:3],
        ops.strided_slice(x, (0, 0, 3), (2, 3, 0), (1, 1, -1)),
        x[i],
        x[:, i],
        x[0][..., 1],
    )


net(slicing, floats(2, 3, 4), np.array([1, 0], np.int32))


def hot(i):
    return ops.one_hot(i, 5), ops.one_hot(i, 5, 2, -1, 0)


net(hot, np.array([0, -1, 4, 5, 2], np.int32))


def indexing(x, i, n, t):
    return (
        ops.gather(x, i, 0),
        ops.gather(x, i, 1),
        ops.gather(x, i, -1),
        ops.gather_elements(x, 1, t),
        ops.gather_nd(x, n),
        ops.gather_d(x, 2, t),
        ops.index_select(x, 1, i),
        ops.one_hot(i, 5),
        ops.one_hot(i, 5, axis=0),
        ops.tensor_scatter_add(x, n, ops.ones((2, 4), x.dtype)),
        ops.scatter_nd(n, ops.ones((2, 4), x.dtype), (2, 3, 4)),
        ops.gather(x, ops.expand_dims(i, 0).tile((2, 1)), 1, 1),
        ops.gather(x, ops.expand_dims(i, 0).tile((2, 1)), 2, 1),
        ops.tensor_scatter_elements(x, t, x * 0 + 5, axis=1),
    )


net(
    indexing,
    floats(2, 3, 4),
    np.array([0, 1, 1], np.int32),
    np.array([[0, 1], [1, 2]], np.int32),
    ints(2, 3, 4, low=0, high=3),
)


def searching(x):
    values, places = ops.topk(x, 2)
    ordered, order = ops.sort(x, 1)
    biggest, at = ops.max(x, 1)
    smallest, where = ops.min(x, 1, keepdims=True)
    return (
        values,
        places,
        ordered,
        order,
        ops.argmax(x, 1),
        ops.argmin(x, 0),
        x.argmax(),
        biggest,
        at,
        smallest,
        where,
        ops.argsort(x, 0, True),
        ops.nonzero(x > 0),
    )


net(searching, floats(3, 5))


def creation(x):
    return (
        x + ops.ones((2, 3), x.dtype),
        x * ops.zeros((2, 3), x.dtype),
        ops.ones_like(x),
        ops.zeros_like(x),
        ops.full((2, 2), 3.5),
        ops.eye(3, 3, x.dtype),
        ops.arange(0, 6, 2),
        ops.linspace(0.0, 1.0, 5),
        ops.tril(x),
        ops.triu(x, 1),
        ops.full_like(x, 2.0),
        ops.fill(x.dtype, (2, 3), 4.0) + x,
    )


net(creation, floats(2, 3))


def padding(x, z):
    return (
        ops.pad(x, (1, 2)),
        ops.pad(x, (1, 2, 0, 1), value=-1.0),
        ops.pad(x, (1, 2, 1, 1), mode="reflect"),
        ops.pad(x, (1, 1, 2, 1), mode="replicate"),
        ops.Pad(((0, 0), (1, 1), (2, 0), (0, 3)))(x),
        ops.MirrorPad("SYMMETRIC")(z, Tensor(np.array([[1, 2], [2, 1]]))),
        ops.MirrorPad("REFLECT")(z, Tensor(np.array([[1, 2], [2, 1]]))),
        ops.pad(x, (1, 2, 1, 1), mode="circular"),
    )


net(padding, floats(1, 2, 4, 5), floats(4, 5))


def empty(x):
    return x + 1, ops.concat((x, x), 1)  # its sum over the empty axis is whatever was in memory


net(empty, floats(2, 0, 3))


class Unfold(nn.Cell):
    """Windows as channels."""

    def __init__(self) -> None:
        super().__init__()
        self.unfold = nn.Unfold([1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 1, 1])

    def construct(self, x):
        return self.unfold(x)

    def expected(self, x):
        rows, columns = (x.shape[2] - 2) // 2 + 1, x.shape[3] - 2
        parts = [x[:, :, r : r + 2 * rows : 2, c : c + columns] for r in range(2) for c in range(3)]
        return (np.concatenate(parts, 1),)


cell("unfold", Unfold, floats(1, 4, 5, 6))
