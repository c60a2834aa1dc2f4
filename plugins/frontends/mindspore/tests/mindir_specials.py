"""Primitives of detectors, recognisers, speech front ends and linear algebra, those that MindSpore runs on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn
from mindspore.ops import operations as P
from mindspore.ops.auto_generate import gen_ops_prim as G

from plugins.frontends.mindspore.tests.mindir_nets import RNG, cell, floats, ints


class One(nn.Cell):
    """A primitive, with constants behind its operands."""

    def __init__(self, primitive: Any, *constants: Any) -> None:
        super().__init__()
        self.primitive = primitive
        self.constants = constants

    def construct(self, *args):
        return self.primitive(*args, *self.constants)


def boxes(count: int) -> np.ndarray:
    """Corners and scores of boxes that overlap, no two scores alike."""
    first, size = RNG.uniform(0, 50, (count, 2)), RNG.uniform(5, 30, (count, 2))
    return np.concatenate([first, first + size, RNG.permutation(count)[:, None] / count], 1).astype(np.float32)


cell("nms_with_mask", lambda: One(P.NMSWithMask(0.4)), boxes(40))
EQUAL = np.concatenate([boxes(9)[:, :4], np.ones((9, 1), np.float32)], 1)
cell("nms_with_equal_scores", lambda: One(P.NMSWithMask(0.5)), EQUAL)
cell("ctc_greedy", lambda: One(P.CTCGreedyDecoder(True)), floats(9, 3, 4), np.int32([9, 4, 0]))
cell("ctc_greedy_repeated", lambda: One(P.CTCGreedyDecoder(False)), floats(9, 3, 4), np.int32([9, 4, 1]))
cell(
    "deformable_offsets",
    lambda: One(P.DeformableOffsets((1, 1, 2, 1), (1, 0, 2, 1), (2, 3), (1, 1, 1, 2), "NCHW", 2)),
    floats(2, 4, 7, 8),
    floats(2, 36, 4, 7),
)

cell("rfft", lambda: One(G.RFFT(), None, -1, None), floats(2, 9))
cell("rfft_ortho", lambda: One(G.RFFT(), 12, 1, "ortho"), floats(2, 9))
cell("fft_of_integers", lambda: One(G.FFT(), None, -1, "forward"), ints(3, 8))
cell("irfft", lambda: One(G.IRFFT(), 7, -1, None), (floats(3, 6) + 1j * floats(3, 6)).astype(np.complex64))
cell("rfft2", lambda: One(G.RFFT2(), None, (-2, -1), None), floats(4, 6))
cell("irfft2", lambda: One(G.IRFFT2(), None, (-2, -1), None), (floats(4, 6) + 1j * floats(4, 6)).astype(np.complex64))


class Spectrum(nn.Cell):
    """What is left of a spectrum: magnitude, angle, parts."""

    def __init__(self) -> None:
        super().__init__()
        self.transform, self.back = G.RFFT(), G.IRFFT()
        self.real, self.imag, self.angle, self.conj = G.Real(), P.Imag(), G.Angle(), G.Conj()

    def construct(self, x):
        z = self.transform(x, None, -1, None)
        return self.real(z), self.imag(z), self.angle(z), self.conj(z), self.back(z, None, -1, None), z * z


cell("spectrum", Spectrum, floats(3, 16))

cell("matrix_inverse", lambda: One(P.MatrixInverse()), floats(3, 4, 4))
cell("matrix_inverse_adjoint", lambda: One(P.MatrixInverse(True)), floats(5, 5))
cell("matrix_determinant", lambda: One(G.MatrixDeterminant()), floats(3, 4, 4))
DOMINANT = floats(4, 4) + 3 * np.eye(4, dtype=np.float32)
cell("solve_triangular", lambda: One(G.SolveTriangular(), 0, True, False), DOMINANT, floats(4, 2))
cell("solve_triangular_transposed", lambda: One(G.SolveTriangular(), 1, False, True), floats(4, 4), floats(4, 2))

cell("cummax", lambda: One(G.Cummax(1)), ints(3, 9, high=4).astype(np.float32))
cell("cummin", lambda: One(G.Cummin(0)), ints(7, 3, high=4).astype(np.float32))
cell("search_sorted", lambda: One(G.SearchSorted(), None), np.sort(floats(3, 6)), floats(3, 4))
cell("search_sorted_right", lambda: One(G.SearchSorted(right=True), None), np.sort(ints(6)), ints(2, 5))
cell("bincount", lambda: One(P.Bincount()), ints(20, low=0, high=7), np.int32(5), floats(20))
cell("unique", lambda: One(P.Unique()), ints(15, low=0, high=6))
cell("unique_with_pad", lambda: One(P.UniqueWithPad(), Tensor(np.int32(-1))), ints(15, low=0, high=6))
cell("unique_consecutive", lambda: One(G.UniqueConsecutive(True, True)), ints(15, low=0, high=3))

cell("col2im", lambda: One(P.Col2Im([2, 3], [1, 2], [1, 0], [2, 1]), Tensor(np.int32([5, 7]))), floats(2, 3, 6, 9))
cell("affine_grid", lambda: One(P.AffineGrid(False), (2, 3, 4, 5)), floats(2, 2, 3))
cell("affine_grid_aligned", lambda: One(P.AffineGrid(True), (2, 3, 3, 4, 5)), floats(2, 3, 4))
cell("cdist", lambda: One(G.Cdist(2.0)), floats(2, 4, 5), floats(2, 3, 5))
cell("cdist_of_three", lambda: One(G.Cdist(3.0)), floats(4, 5), floats(3, 5))
cell("cdist_of_most", lambda: One(G.Cdist(float("inf"))), floats(4, 5), floats(3, 5))
cell("cross", lambda: One(G.Cross()), floats(2, 3, 4, 3), floats(2, 3, 4, 3))
cell("cross_last", lambda: One(G.Cross(-1)), floats(2, 3, 4, 3), floats(2, 3, 4, 3))
PLANES, VOLUMES = (RNG.uniform(size=(2, 3, n)).astype(np.float32) for n in (2, 3))
cell("fractional_pool", lambda: One(P.FractionalMaxPoolWithFixedKsize((2, 3), (4, 3))), floats(2, 3, 9, 8), PLANES)
cell(
    "fractional_pool_3d",
    lambda: One(P.FractionalMaxPool3DWithFixedKsize((2, 3, 2), (3, 5, 4))),
    floats(2, 3, 7, 9, 9),
    VOLUMES,
)
cell("adaptive_max_places", lambda: One(G.AdaptiveMaxPool2D((4, 5))), floats(2, 3, 9, 8))
cell("adaptive_max_places_3d", lambda: One(P.AdaptiveMaxPool3D(), Tensor(np.int32([3, 4, 5]))), floats(2, 3, 7, 9, 8))
