"""The onnxruntime pack and the cpu pack together: real networks run, each node goes to whom the cost model says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.projects import CONTRIB, install, run
from tests.zoo import zoo

pytest.importorskip("onnxruntime")

ALSO = ("yolov8n", "silero_vad")

SCRIPT = """
import json, sys
import numpy as np
import autofusion
from autofusion.tools import explain
from autofusion.ir.types import TensorType

path, shapes, data = sys.argv[1], json.loads(sys.argv[2]), np.load(sys.argv[3])
feeds = {name: data[name] for name in data.files}
both = autofusion.compile(path, shapes=shapes, threads=2)
outputs = both.run(feeds)
alone = autofusion.compile(path, shapes=shapes, threads=2, disable_kernels=["onnxruntime"]).run(feeds)
found = {"kernels": {}, "worse": [], "losers": 0, "apart": 0.0}
target = both.context.target
for plan in explain.plans(both):
    for step in plan.steps:
        if step.is_reorder:
            continue
        found["kernels"][step.pack.name] = found["kernels"].get(step.pack.name, 0) + 1
        found["losers"] += sum(kernel.startswith(("onnxruntime", "cpu")) for kernel, _ in step.losers)
        # A cheaper kernel may lose for its layout only: the copies that it would need cost at least the difference.
        types = [v.type for v in (*step.node.inputs, *step.node.outputs) if v is not None and v.const is None]
        static = [t for t in types if isinstance(t, TensorType) and t.is_static]
        copies = sum(2 * 2 * t.nbytes / target.bandwidth_l3 + 2e-6 for t in static)
        cheapest = min([seconds for _, seconds in step.losers], default=step.seconds)
        if step.seconds > cheapest + copies:
            found["worse"].append([step.node.name, step.kernel, step.seconds, cheapest, copies])
for name, value in outputs.items():
    scale = float(np.abs(alone[name]).max()) or 1.0
    found["apart"] = max(found["apart"], float(np.abs(value - alone[name]).max()) / scale)
largest = max((s for p in explain.plans(both) for s in p.steps if s.losers), key=lambda s: s.seconds)
found["explained"] = explain.node(both, (largest.node.origin or (largest.node.name,))[0])
print(json.dumps(found))
"""


def together(folder: Path, model: Path, inputs: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    np.savez(tmp_path / "inputs.npz", **inputs)
    shapes = json.dumps({name: list(array.shape) for name, array in inputs.items()})
    done = run(folder, ["-c", SCRIPT, str(model), shapes, str(tmp_path / "inputs.npz")])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packs") / "installed"
    install(place, CONTRIB / "onnxruntime-kernels")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, m in zoo.MODELS.items() if m.group == "first" or n in ALSO])
def test_the_zoo_runs(name: str, folder: Path, tmp_path: Path) -> None:
    found = together(folder, zoo.model_path(name), zoo.inputs(name, 0), tmp_path)
    assert found["worse"] == [], "a node went to a kernel that costs more than its layout explains"
    assert found["losers"] > 0, "both packs offer"
    assert found["apart"] < 1e-4
    assert any("slower: " in line for line in found["explained"]), found["explained"]


CHOICE = """
import numpy as np
import autofusion
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.tools import explain

def network():
    rng = np.random.default_rng(0)
    graph = Graph("net")
    x = graph.add_input("x", TensorType(np.dtype(np.float32), (1, 8, 16, 16)))
    w = graph.constant(rng.standard_normal((8, 8, 3, 3)).astype(np.float32))
    y = graph.node("Conv", [x, w], {"pads": [1, 1, 1, 1]}, name="conv", origin=["conv"])
    y = graph.node("Relu", y.outputs, name="relu", origin=["relu"])
    graph.add_output(y.output, "y")
    infer_graph(graph)
    return graph

x = np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype(np.float32)
expected = autofusion.compile(network(), level="off", numerics="exact").run({"x": x})["y"]
for off in ([], ["cpu"], ["onnxruntime"]):
    session = autofusion.compile(network(), disable_kernels=off)
    print([(s.kernel, len(s.node.origin)) for p in explain.plans(session) for s in p.steps if not s.is_reorder])
    print(bool(np.abs(session.run({"x": x})["y"] - expected).max() < 1e-4))
    print("; ".join(explain.node(session, "conv")))
"""


def test_a_whole_region_goes_to_either_pack(folder: Path) -> None:
    done = run(folder, ["-c", CHOICE])
    assert done.returncode == 0, done.stderr
    both, right, explained, theirs, right_too, _, ours, right_again, _ = done.stdout.splitlines()
    assert both.startswith("[('cpu:conv.") and both.endswith(", 2)]"), (
        "a call into onnxruntime costs more than this node"
    )
    assert "slower: onnxruntime:onnxruntime.conv, predicted" in explained, "the losing offer is told"
    assert theirs == "[('onnxruntime:onnxruntime.conv', 2)]", "the region as one call"
    assert ours.startswith("[('cpu:conv.")
    assert right == right_too == right_again == "True"
