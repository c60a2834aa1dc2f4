"""Damaged models: whatever the bytes, loading ends in a graph or in an AutofusionError, and soon."""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from autofusion.errors import AutofusionError
from autofusion.frontends import LoadOptions
from autofusion_frontend_onnx.frontend import OnnxFrontend
from plugins.frontends.onnx.tests.mutation import damaged_bytes, damaged_fields
from plugins.frontends.onnx.tests.onnx_models import model

FRONTEND = OnnxFrontend()


def _seeds() -> list[bytes]:
    """Small models that between them use every part of the format that the frontend reads."""
    x, w = np.ones((1, 2, 4, 4), np.float32), np.ones((2, 2, 3, 3), np.float32)

    def node(op: str, inputs: list[str], outputs: list[str], **attrs: object) -> onnx.NodeProto:
        return helper.make_node(op, inputs, outputs, **attrs)

    def branch(op: str) -> onnx.GraphProto:
        return helper.make_graph([node(op, ["h"], ["r"])], op, [], [onnx.ValueInfoProto(name="r")])

    body = helper.make_graph(
        [node("Add", ["a", "x"], ["b"]), node("Identity", ["go"], ["on"])],
        "body",
        [helper.make_tensor_value_info(n, t, None) for n, t in (("i", 7), ("go", 9), ("a", 1))],
        [onnx.ValueInfoProto(name=n) for n in ("on", "b", "b")],
    )
    function = helper.make_function(
        "local", "F", ["p"], ["q"], [node("LeakyRelu", ["p"], ["q"])], [helper.make_opsetid("", 17)]
    )
    function.node[0].attribute.append(onnx.AttributeProto(name="alpha", type=1, ref_attr_name="alpha"))
    function.attribute.append("alpha")
    models = [
        model(
            [node("Conv", ["x", "w"], ["h"], auto_pad="SAME_UPPER"), node("Softmax", ["h"], ["y"])],
            {"x": x},
            ["y"],
            constants={"w": w},
            opset=11,
        ),
        model(
            [
                node("Relu", ["x"], ["h"]),
                node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Exp")),
            ],
            {"x": x, "c": np.array(True)},
            ["y"],
        ),
        model(
            [node("Loop", ["n", "", "x"], ["y", "z"], body=body)], {"x": x}, ["y", "z"], constants={"n": np.int64(3)}
        ),
        model(
            [node("F", ["x"], ["y"], domain="local", alpha=0.5)],
            {"x": x},
            ["y"],
            functions=[function],
            domains={"local": 1},
        ),
        model(
            [node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Relu")],
            {"x": x},
            ["y"],
            constants={"w": w},
            domains={"com.microsoft": 1},
        ),
        model(
            [node("Resize", ["x", "", "s"], ["h"]), node("ReduceMean", ["h"], ["y"], axes=[1, 2])],
            {"x": x},
            ["y"],
            constants={"s": np.float32([1, 1, 2, 2])},
            opset=13,
        ),
        model(
            [
                node("Constant", [], ["k"], value_ints=[1, 2, 4, 4]),
                node("Reshape", ["x", "k"], ["h"]),
                node("Split", ["h"], ["y", "z"], axis=1),
            ],
            {"x": x},
            ["y", "z"],
            opset=13,
        ),
    ]
    seeds = [m.SerializeToString() for m in models]
    external = onnx.ModelProto.FromString(seeds[0])
    external.graph.initializer[0].ClearField("raw_data")
    external.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    external.graph.initializer[0].external_data.add(key="location", value="weights.bin")
    return [*seeds, external.SerializeToString()]


SEEDS = _seeds()


def _load(data: bytes, folder: Path) -> None:
    (folder / "weights.bin").write_bytes(bytes(144))
    path = folder / "model.onnx"
    path.write_bytes(data)
    begin = time.monotonic()
    FRONTEND.recognises(path)
    try:
        FRONTEND.load(path, LoadOptions())
    except AutofusionError as error:
        assert str(error)
    assert time.monotonic() - begin < 10


def test_seeds_are_whole(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(144))
    for index, seed in enumerate(SEEDS):
        path = tmp_path / f"{index}.onnx"
        path.write_bytes(seed)
        assert FRONTEND.load(path, LoadOptions()).outputs


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), fields=st.booleans())
def test_damaged_models(tmp_path: Path, seed: int, fields: bool) -> None:
    chance = random.Random(seed)
    data = chance.choice(SEEDS)
    _load(damaged_fields(data, chance) if fields else damaged_bytes(data, SEEDS, chance), tmp_path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_bytes(tmp_path: Path, data: bytes) -> None:
    _load(data, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_damaged_models(tmp_path: Path, part: int) -> None:
    """With the models of the onnx test suite among the seeds, in bounded memory."""
    from onnx.backend.test.loader import load_model_tests

    cases = [c.model.SerializeToString() for c in load_model_tests(kind="node") if c.model is not None]
    seeds = SEEDS * 20 + [c for c in cases if len(c) < 3000]
    old = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, old[1]))
    try:
        chance = random.Random(part)
        for _ in range(2500):
            data = chance.choice(seeds)
            _load(
                damaged_fields(data, chance) if chance.random() < 0.6 else damaged_bytes(data, seeds, chance), tmp_path
            )
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)


CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.onnx")), ids=lambda p: p.stem)
def test_models_that_once_broke_it(path: Path) -> None:
    try:
        FRONTEND.load(path, LoadOptions())
    except AutofusionError as error:
        assert str(error)
