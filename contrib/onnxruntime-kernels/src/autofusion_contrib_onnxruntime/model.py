"""A node as an ONNX model of its own, and a session for it."""

from __future__ import annotations

import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from autofusion.frontends import Exporter
from autofusion.ir.graph import Graph, Node, Value
from autofusion.kernels import KernelError

if TYPE_CHECKING:
    import onnxruntime


def alone(node: Node) -> tuple[Graph, dict[int, str]]:
    """A graph of ``node`` only, constants inside it; and operand number -> input name of what is not constant."""
    graph = Graph("node")
    values: dict[Value, Value] = {}
    names: dict[int, str] = {}
    for index, value in enumerate(node.inputs):
        if value is None or value in values:
            continue
        if value.const is not None:
            values[value] = graph.constant(value.const, f"c{index}")
        else:
            values[value] = graph.add_input(f"x{index}", value.type)
            names[index] = f"x{index}"
    operands = [None if v is None else values[v] for v in node.inputs]
    copy = graph.node(node.op, operands, node.attrs, outputs=[v.type for v in node.outputs], name="node")
    for number, value in enumerate(copy.outputs):
        graph.add_output(value, f"y{number}")
    return graph, names


def _exporter() -> Exporter:
    """The installed ONNX frontend, which writes the models; raise KernelError without one."""
    for point in entry_points(group="autofusion.frontends", name="onnx"):
        for frontend in point.load().autofusion_frontends():
            if isinstance(frontend, Exporter):
                return frontend
    raise KernelError("no installed ONNX frontend writes models; install or upgrade autofusion-frontend-onnx")


def session_of(node: Node, threads: int) -> tuple[onnxruntime.InferenceSession, dict[int, str]]:
    """A session that runs ``node`` (a fused one: its body), and the names of its inputs; raise if there can be none."""
    import onnxruntime

    exporter = _exporter()
    graph, names = alone(node)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory(prefix="autofusion-") as folder:
        path = Path(folder) / "node.onnx"
        exporter.export(graph, path, inline=True)
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, names
