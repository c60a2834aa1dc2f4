"""The pack's side of the kernel contract."""

from __future__ import annotations

import numpy as np
import pluggy
import pytest
from onnx import defs

import autofusion_kernels_reference
from autofusion.ir.graph import Graph
from autofusion.ir.operators.schema import OPSET
from autofusion.ir.types import TensorType
from autofusion.kernels import ANY_KIND, PLAIN, BindContext, Layout, Numerics, Operand, Refusal, Target
from autofusion.plugins import hookspecs
from autofusion_kernels_reference.evaluate import is_known
from autofusion_kernels_reference.pack import ReferencePack, to_blocked, to_plain
from plugins.kernels.reference.tests.single import make_node

TARGET = Target("generic", 4, 1, 1e10, 1 << 15, 1 << 19, 1 << 23, 1e10, 1e10, 1e10, 1e9)
PACK = ReferencePack()


def test_the_hook() -> None:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(autofusion_kernels_reference)
    manager.check_pending()
    ((pack,),) = manager.hook.autofusion_kernel_packs(target=TARGET)
    assert (pack.name, pack.is_reference, pack.kinds) == ("reference", True, (ANY_KIND,))


def test_every_operator_of_the_default_domain_is_known() -> None:
    names = {
        s.name
        for s in defs.get_all_schemas_with_history()
        if s.domain == "" and s.since_version <= OPSET and not s.deprecated
    }
    assert {n for n in names if not is_known(n)} == set()


def test_an_offer() -> None:
    x = np.array([-1, 2], np.float32)
    node = make_node("Relu", [x])
    (offer,) = PACK.offer(node, TARGET)
    assert offer.inputs == offer.outputs == (Operand(),)
    assert offer.numerics is Numerics.EXACT
    assert offer.seconds >= 0
    kernel = offer.bind(BindContext(TARGET, {}), [None], [])
    np.testing.assert_array_equal(kernel([x])[0], [0, 2])


def test_absent_operands() -> None:
    x = np.array([-1, 2], np.float32)
    node = make_node("Clip", [x, None, np.array(1, np.float32)])
    (offer,) = PACK.offer(node, TARGET)
    assert offer.inputs == (Operand(), None, Operand())
    kernel = offer.bind(BindContext(TARGET, {}), [None] * 3, [])
    np.testing.assert_array_equal(kernel([x, None, np.array(1, np.float32)])[0], [-1, 1])


def _refusal(node: object) -> str:
    answer = PACK.offer(node, TARGET)
    assert isinstance(answer, Refusal)
    return answer.reason


def test_refusals() -> None:
    x = np.zeros(2, np.float32)
    assert "no operator 'mine::Magic'" in _refusal(make_node("mine::Magic", [x]))
    branch = Graph()
    control = make_node("If", [np.array(True)], then_branch=branch, else_branch=branch)
    assert "the session runs itself" in _refusal(control)
    body = Graph()
    body.add_output(body.node("mine::Magic", [body.add_input("x", None)], name="m").output)
    assert "its body has mine::Magic 'm'" in _refusal(make_node("Fused", [x], body=body, kind="k", rule="r"))


def test_any_fused_kind() -> None:
    body = Graph()
    body.add_output(body.node("Neg", [body.add_input("x", TensorType(np.dtype(np.float32), (2,)))]).output)
    x = np.array([1, -2], np.float32)
    node = make_node("Fused", [x], body=body, kind="a kind nobody heard of", rule="r")
    (offer,) = PACK.offer(node, TARGET)
    kernel = offer.bind(BindContext(TARGET, {}), [None], [])
    np.testing.assert_array_equal(kernel([x])[0], [-1, 2])


def test_more_work_costs_more() -> None:
    small, large = (make_node("Relu", [np.zeros(n, np.float32)]) for n in (10, 10**6))
    for node in (small, large):
        node.output.type = node.inputs[0].type
    assert PACK.offer(small, TARGET)[0].seconds < PACK.offer(large, TARGET)[0].seconds


@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (1, 16, 7), (3, 33), (2, 8, 2, 3, 4)])
def test_blocked_storage(block: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = to_blocked(x, block)
    assert y.shape == (shape[0], -(-shape[1] // block), *shape[2:], block)
    for c in range(shape[1]):
        np.testing.assert_array_equal(y[:, c // block, ..., c % block], x[:, c])
    np.testing.assert_array_equal(to_plain(y, block, shape[1]), x)


@pytest.mark.parametrize(("source", "result"), [(0, 8), (8, 0), (16, 8), (0, 0)])
def test_reorders(source: int, result: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 11, 3)).astype(np.float32)
    type_ = TensorType(x.dtype, x.shape)
    offer = PACK.reorder(type_, Operand(Layout(source)), Operand(Layout(result), border=(1, 1)), TARGET)
    kernel = offer.bind(BindContext(TARGET, {}), [None], [None])
    (y,) = kernel([to_blocked(x, source)])
    np.testing.assert_array_equal(y, to_blocked(x, result))
    assert not np.may_share_memory(y, x)


def test_no_blocks_without_channels() -> None:
    type_ = TensorType(np.dtype(np.float32), (4,))
    assert PACK.reorder(type_, Operand(PLAIN), Operand(Layout(8)), TARGET) is None
