"""What an integer product costs."""

from __future__ import annotations

import math

from autofusion.ir.graph import Node
from autofusion.ir.operators import work
from autofusion.kernels import Target
from autofusion_kernels_cpu.codegen.isa import Isa
from autofusion_kernels_cpu.estimate import Estimate, roofline
from autofusion_kernels_cpu.integer.form import Form
from autofusion_kernels_cpu.integer.problem import IntegerProduct
from autofusion_kernels_cpu.matmul.tile import choose_rows, panel_width


def estimate(node: Node, problem: IntegerProduct, form: Form, isa: Isa, target: Target) -> Estimate:
    """Time and threads: register tiles, a group of k in each step, against the traffic, plus the epilogue."""
    product = problem.product
    batches = math.prod(product.batch)
    shared = math.prod(product.b_shape[:-2]) == 1
    rows = choose_rows(isa, max(1, product.rows * batches if shared else product.rows))
    panels = -(-product.columns // panel_width(isa))
    steps = (1 if shared else batches) * panels * max(-(-product.k // form.group), 1)
    # Words take an addition besides each multiplication.
    inner = steps * rows.cycles * (1.0 if form is Form.BYTES else 1.5) * 4 * isa.lanes / target.peak_flops
    amount = work(node)
    elements = product.anchor.output.tensor.numel
    rest = max(2.0 * elements, amount.flops - 2.0 * elements * product.k) / (target.peak_flops / 2)
    rest += amount.transcendentals / target.transcendentals
    return roofline(target, (inner + rest) * target.peak_flops, amount.bytes_read + amount.bytes_written)
