"""Every generator makes valid code for instruction sets that this machine may not have."""

from __future__ import annotations

import numpy as np
import pytest

from autofusion.ir.infer import infer_node
from autofusion.kernels import Refusal
from autofusion_kernels_cpu.attention import kernel as attention
from autofusion_kernels_cpu.attention.problem import attention_of
from autofusion_kernels_cpu.codegen.epilogue import Epilogue, OperandKind
from autofusion_kernels_cpu.codegen.isa import ISAS
from autofusion_kernels_cpu.codegen.pointwise_ops import OPS
from autofusion_kernels_cpu.codegen.region import region_of
from autofusion_kernels_cpu.matmul import kernel as matmul
from autofusion_kernels_cpu.matmul.problem import product_of
from autofusion_kernels_cpu.matmul.tile import choose_rows
from autofusion_kernels_cpu.native.jit import jit
from autofusion_kernels_cpu.pointwise import kernel as pointwise
from autofusion_kernels_cpu.reduction import kernel as reduction
from autofusion_kernels_cpu.reduction import lrn, sweep
from autofusion_kernels_cpu.reduction.problem import problem_of
from autofusion_kernels_cpu.reduction.programs import Program
from plugins.kernels.cpu.tests.fused_nodes import fused
from plugins.kernels.cpu.tests.kernel_harness import make_node

every_isa = pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
F, B, I = np.zeros((2, 3), np.float32), np.zeros((2, 3), bool), np.zeros((2, 3), np.uint32)  # noqa: E741
OPERANDS = {
    **dict.fromkeys(("And", "Or", "Xor"), (B, B)),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"), (I, I)),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum", "Clip"), (F, F, F)),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Mod", "PRelu", "Pow"), (F, F)),
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), (F, F)),
    "BatchNormalization": [F, *[np.zeros(3, np.float32)] * 4],
    "BitwiseNot": [I],
    "DequantizeLinear": [I, F],
    "Not": [B],
    "QuantizeLinear": [F, F],
    "Where": [B, F, F],
}
ATTRIBUTES = {"Cast": {"to": np.dtype(np.float16)}, "BitShift": {"direction": "LEFT"}, "Mod": {"fmod": 1}}


def assembles(kernel):
    assert len(jit().object_code(kernel.module())) > 200


@every_isa
@pytest.mark.parametrize("op", [op for op in OPS if op != "Gather"])
def test_pointwise(op, isa):
    operands = OPERANDS.get(op, [F])
    node = make_node(op, operands, ATTRIBUTES.get(op))
    if op == "Clip":
        node = make_node(op, [F, np.float32(0) + np.zeros((), np.float32), np.ones((), np.float32)])
    infer_node(node)
    region = region_of(node)
    assert not isinstance(region, Refusal), region
    assembles(pointwise.build(region, pointwise.Structure((pointwise.VECTOR,) * len(region.leaves)), isa))


@every_isa
def test_table_of_bytes(isa):
    x, table = np.zeros((2, 3), np.uint8), np.zeros(256, np.uint8)
    node = fused("pointwise", lambda b, x, t: b("Gather", t, b("Cast", x, to=np.dtype(np.int32)), axis=0), [x, table])
    region = region_of(node)
    assert not isinstance(region, Refusal), region
    assembles(pointwise.build(region, pointwise.Structure((pointwise.VECTOR, pointwise.TABLE)), isa))


@every_isa
@pytest.mark.parametrize("source", [matmul.PACKED, matmul.BY_ROWS, matmul.BY_COLUMNS])
def test_matmul(source, isa):
    a, w = np.zeros((5, 6), np.float32), np.zeros((6, 7), np.float32)
    node = fused("matmul", lambda b, a, w, c: b("Gelu", b("Add", b("MatMul", a, w), c)), [a, w, w[0]])
    product = product_of(node)
    assert not isinstance(product, Refusal), product
    epilogue = Epilogue(product.region, (OperandKind.TENSOR,), product.anchor.output)
    for rows in (1, 4, 128):
        assembles(matmul.build(matmul.Structure(choose_rows(isa, rows).tile, source), epilogue, isa))


@every_isa
@pytest.mark.parametrize("along", [True, False])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("ReduceMean", {}),
        ("ReduceMax", {}),
        ("ReduceLogSumExp", {}),
        ("Softmax", {}),
        ("LogSoftmax", {}),
        ("ArgMax", {"axis": 1}),
        ("LayerNormalization", {}),
    ],
)
def test_reduction(op, attrs, along, isa):
    operands = [F, F[0], F[0]] if op == "LayerNormalization" else [F, np.array([1])] if "Reduce" in op else [F]
    node = make_node(op, operands, attrs, constants=[1] if "Reduce" in op else [])
    infer_node(node)
    problem = problem_of(node)
    assert not isinstance(problem, Refusal), problem
    full = [sweep.Operand(leaf.value, leaf.dtype, sweep.VECTOR) for leaf in problem.full]
    full += [sweep.Operand(v, v.tensor.dtype, sweep.VECTOR) for _, v in problem.full_results]
    row = [sweep.Operand(v, v.tensor.dtype, sweep.VECTOR) for _, v in problem.row_results]
    program = Program(node, (), (), full, range(len(problem.full), len(full)), row, range(len(row)))
    assembles(reduction.build(problem.signature(), program, reduction.Structure(along), isa))


@every_isa
def test_lrn(isa):
    assembles(lrn.build(isa))


@every_isa
@pytest.mark.parametrize("k_columns", [True, False])
def test_attention(k_columns, isa):
    q, k = np.zeros((2, 5, 6), np.float32), np.zeros((2, 6, 7), np.float32)
    v = np.zeros((2, 7, 6), np.float32)
    node = fused("attention", lambda b, q, k, v: b("MatMul", b("Softmax", b("MatMul", q, k)), v), [q, k, v])
    problem = attention_of(node)
    assert not isinstance(problem, Refusal), problem
    rows = choose_rows(isa, 128, single=True).tile.rows
    epilogue = Epilogue(problem.region, (), problem.scores)
    guard = Epilogue(problem.guard, (), problem.probabilities)
    assembles(attention.build(attention.Structure(rows, k_columns), epilogue, guard, isa))
