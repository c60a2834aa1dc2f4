"""ONNX models in a few lines, and the check that all levels agree with onnxruntime (or with given numbers)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import autofusion as af
from autofusion.fusion.ledger import Verdict

LEVELS = ("off", "basic", "full")
F32 = np.float32


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers about zero."""
    return np.asarray(rng(seed).standard_normal(shape)).astype(F32)


def pos(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers between 0.5 and 2."""
    return rng(seed).uniform(0.5, 2.0, shape).astype(F32)


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def node(op: str, inputs: str, outputs: str = "y", **attrs: Any) -> onnx.NodeProto:
    """A node; names are separated by spaces, ``_`` is an absent operand. ``domain`` is not an attribute."""
    names = ["" if n == "_" else n for n in inputs.split()]
    domain = attrs.pop("domain", "")
    return helper.make_node(op, names, outputs.split(), domain=domain, **attrs)


@dataclass
class Trap:
    """A model: ``feeds`` are the inputs with data, ``consts`` the initializers.

    ``expected`` replaces onnxruntime where that is wrong or has no kernel. ``overridable`` are initializers that are
    inputs too; those of them that are in ``feeds`` are overridden. ``absent`` are rules that must not have fired.
    """

    nodes: Sequence[onnx.NodeProto]
    feeds: Mapping[str, np.ndarray]
    consts: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: str = "y"
    opset: int = 17
    expected: Mapping[str, np.ndarray] | None = None
    overridable: Sequence[str] = ()
    dims: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    absent: Sequence[str] = ()
    rtol: float = 1e-4
    atol: float = 1e-5
    ir_version: int = 8
    domains: Mapping[str, int] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        def info(name: str, data: np.ndarray) -> onnx.ValueInfoProto:
            kind = helper.np_dtype_to_tensor_dtype(data.dtype)
            return helper.make_tensor_value_info(name, kind, self.dims.get(name, data.shape))

        inputs = [info(n, d) for n, d in self.feeds.items() if n not in self.overridable]
        inputs += [info(n, self.consts[n]) for n in self.overridable]
        outputs = [onnx.ValueInfoProto(name=n) for n in self.outputs.split()]
        graph = helper.make_graph(
            list(self.nodes), "trap", inputs, outputs, [numpy_helper.from_array(d, n) for n, d in self.consts.items()]
        )
        sets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(d, v) for d, v in self.domains.items())]
        return helper.make_model(graph, opset_imports=sets, ir_version=self.ir_version)

    def wanted(self) -> Mapping[str, np.ndarray]:
        if self.expected is not None:
            return self.expected
        return by_onnxruntime(self.model(), self.feeds)

    def check(self, folder: Path) -> None:
        path = folder / "model.onnx"
        path.write_bytes(self.model().SerializeToString())
        wanted = self.wanted()
        for level in LEVELS:
            session = af.compile(path, level=level, threads=1)
            agree(session.run(dict(self.feeds)), wanted, self.rtol, self.atol, level)
            errors = [r.reason for r in session.ledger.of(Verdict.ERROR)]
            assert not errors, f"level {level}: {errors}"
            fused = {r.rule.partition("@")[0] for r in session.ledger.of(Verdict.FUSED)}
            assert not fused & set(self.absent), f"level {level}: {fused & set(self.absent)} must not fire here"


def agree(
    outputs: Mapping[str, Any], wanted: Mapping[str, np.ndarray], rtol: float, atol: float, what: str = ""
) -> None:
    """Raise unless shapes, element types, places of NaN and infinities, and numbers agree."""
    for name, want in wanted.items():
        got = np.asarray(outputs[name])
        assert got.dtype == want.dtype, f"{what}: '{name}' is {got.dtype}, expected {want.dtype}"
        assert got.shape == want.shape, f"{what}: '{name}' has shape {got.shape}, expected {want.shape}"
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, equal_nan=True, err_msg=f"{what}: '{name}'")


def by_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by onnxruntime with all optimisations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


class Traps(dict[str, Callable[[], Trap]]):
    """Traps by name."""

    def register(self, *names: object) -> Callable[[Callable[..., Trap]], Callable[..., Trap]]:
        """Register one trap for each of ``names``, which are also the argument of the function that makes it."""

        def note(function: Callable[..., Trap]) -> Callable[..., Trap]:
            for name in names:
                self[f"{function.__name__}-{name}"] = functools.partial(function, name)
            return function

        return note


def bn(x: str, y: str, name: str = "bn", **attrs: Any) -> onnx.NodeProto:
    """A BatchNormalization with the parameters of ``bn_consts``."""
    return node("BatchNormalization", f"{x} {name}.s {name}.b {name}.m {name}.v", y, **attrs)


def bn_consts(channels: int, name: str = "bn", seed: int = 7) -> dict[str, np.ndarray]:
    """Scale, shift, mean and variance."""
    return {
        f"{name}.s": f32(channels, seed=seed),
        f"{name}.b": f32(channels, seed=seed + 1),
        f"{name}.m": f32(channels, seed=seed + 2),
        f"{name}.v": pos(channels, seed=seed + 3),
    }


def subgraph(nodes: Sequence[onnx.NodeProto], inputs: str, outputs: str, **consts: np.ndarray) -> onnx.GraphProto:
    """A body; types of its inputs and outputs are left open."""
    return helper.make_graph(
        list(nodes),
        "body",
        [onnx.ValueInfoProto(name=n) for n in inputs.split()],
        [onnx.ValueInfoProto(name=n) for n in outputs.split()],
        [numpy_helper.from_array(d, n) for n, d in consts.items()],
    )


def typed(name: str, dtype: Any, *dims: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(dims))
