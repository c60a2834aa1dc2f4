"""Every kernel of these families becomes machine code for every instruction set, also those of other machines."""

from __future__ import annotations

import pytest

from autofusion_kernels_cpu.codegen.isa import ISAS
from autofusion_kernels_cpu.movement import kernel as copies
from autofusion_kernels_cpu.movement.lookup import lookup_kernel
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.pooling import kernel as pooling
from autofusion_kernels_cpu.recurrent import cells
from autofusion_kernels_cpu.recurrent import kernel as recurrent
from autofusion_kernels_cpu.recurrent.activation import Activation
from autofusion_kernels_cpu.resize import kernel as resize

GATES = (Activation("sigmoid"), Activation("tanh"), Activation("tanh"))

KERNELS = {
    "pool blocked": lambda isa: pooling.blocked(isa, "max"),
    "pool blocked average": lambda isa: pooling.blocked(isa, "average"),
    "pool blocked u8": lambda isa: pooling.blocked(isa, "max", "u8"),
    "pool blocked i8": lambda isa: pooling.blocked(isa, "max", "i8"),
    "pool plain": lambda isa: pooling.plain(isa, "max", True),
    "pool plain gather": lambda isa: pooling.plain(isa, "average", False),
    "resize blocked": lambda isa: resize.blocked(isa, resize.Structure(1, 2, 2, True)),
    "resize plain copy": lambda isa: resize.plain(isa, resize.Structure(1, 1, 1, False)),
    "copy bytes": copies.bytes_kernel,
    "copy vectors": copies.vector_kernel,
    "copy masked": copies.masked_kernel,
    "copy fill": lambda isa: copies.fill_kernel(isa, 2),
    "copy gather": lambda isa: copies.gather_kernel(isa, 4),
    "copy elements": lambda isa: copies.element_kernel(isa, 1),
    "copy transpose": lambda isa: copies.transpose_kernel(isa, 4),
    "copy transpose 1": lambda isa: copies.transpose_kernel(isa, 1),
    "copy transpose 8": lambda isa: copies.transpose_kernel(isa, 8),
    "gather rows": lambda isa: lookup_kernel(isa, 4),
    "project": lambda isa: recurrent.project(isa, 4),
    "lstm": lambda isa: recurrent.step(isa, cells.LSTM_PEEPHOLES, GATES),
    "gru": lambda isa: recurrent.step(isa, cells.GRU_RESET_AFTER, GATES[:2]),
}


@pytest.mark.parametrize("isa", sorted(ISAS))
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_assembles(isa, name):
    kernel = KERNELS[name](ISAS[isa])
    assert len(jit().object_code(kernel.module())) > 200
