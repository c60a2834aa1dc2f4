"""Minimal reproducers: the smallest model that still fails on its own, with its inputs and a script.

From the smallest to the largest: the one node with its body (if a kernel is to blame), the source nodes that the
culprit's rules touched, the whole model. Each is tried, and the first that fails is kept.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import autofusion
from autofusion.files import write_text
from autofusion.ir.graph import Graph, Node, Value, copy_node
from autofusion.ir.types import TensorType, of_array
from autofusion.lowering.plan import Step
from autofusion.runtime.session import Session
from autofusion.tools.bisect.job import Request, variant_settings
from autofusion.tools.cases import write_case
from autofusion.tools.child import CRASH, ERROR, HANG, Progress
from autofusion.tools.inputs import Wanted
from autofusion.tools.samples import made_up, open_data
from autofusion.tools.verify.job import compiled

SIZES = ("node", "region", "model")
SCRIPT = "reproduce.py"

_SCRIPT = '''"""{title}

Found in '{model}' with Autofusion {version}. Run this file: it exits with 1, or dies, as long as the fault is there.
"""

import sys
from pathlib import Path

from autofusion.tools.reproduce import run

if __name__ == "__main__":
    sys.exit(
        run(
            Path(__file__).parent,
            level={level!r},
            threads={threads!r},
            only_sites={only_sites!r},
            disable_kernels={disable_kernels!r},
            limit={limit!r},
        )
    )
'''


@dataclass(frozen=True, slots=True)
class Reproducer:
    """Where a reproducer is, how much of the model it is (of SIZES), and how it ended when it was tried."""

    folder: str
    size: str
    ending: str


def make_job(request: Mapping[str, Any], progress: Progress) -> bool:
    """The job: write the case of one size; False if there is none of that size.

    Nothing of the variant is run: the inputs of a node are values of level off.
    """
    size, kernel, nodes, folder = request["size"], request["kernel"], set(request["nodes"]), Path(request["out"])
    own = Request(**request["request"])
    progress("loading the model")
    source = autofusion.load(
        own.model, inputs=tuple(own.settings.get("inputs") or ()), outputs=tuple(own.settings.get("outputs") or ())
    )
    if own.data:
        samples = [open_data(Path(own.data), source).sample(0)]
    else:
        samples = made_up(source, {n: tuple(s) for n, s in own.shapes.items()}, own.seed, Wanted.of(own.wanted))
    sample = next((s for s in samples if s.name == request["case"]), samples[-1 if len(samples) < 3 else 1])
    inputs = dict(sample.inputs)
    if size == "model":
        write_case(folder, source, inputs)
        return True
    progress("compiling")
    off = compiled(source, own.settings, level="off", only_sites=None)
    if size == "region":
        return _write_region(folder, source, off, inputs, nodes)
    session = compiled(source, variant_settings(own))
    session.prepare({name: tuple(array.shape) for name, array in inputs.items()})
    step = _step(session, kernel, nodes)
    if step is None:
        return False
    graph, names = _of_node(step.node)
    progress("running level off")
    known = {v.name for v in source.values()}
    if not names <= known:
        return False
    values = off.watch(sorted(names - set(inputs)), inputs).values if names - set(inputs) else {}
    write_case(folder, graph, {n: np.asarray(inputs.get(n, values.get(n))) for n in names})
    return True


def _step(session: Session, kernel: str, nodes: set[str]) -> Step | None:
    for stage in session.stages:
        for step in stage.runner.plan.steps:
            if step.kernel == kernel and nodes & set(step.node.origin or (step.node.name,)):
                return step
    return None


def _of_node(node: Node) -> tuple[Graph, set[str]]:
    """A graph of that node alone, and the names of its inputs; constants come along."""
    graph = Graph(f"{node.name}.alone")
    values: dict[Value, Value] = {}
    for value in node.inputs:
        if value is not None and value.const is None and value not in values:
            values[value] = graph.add_input(value.name, value.type)
    made = copy_node(node, graph, values)
    for value in made.outputs:
        graph.add_output(value)
    return graph, {v.name for v in graph.inputs}


def _write_region(folder: Path, source: Graph, off: Session, inputs: dict[str, Any], names: set[str]) -> bool:
    """The source nodes called ``names``, with the values that enter them."""
    chosen = [n for n in source.nodes if names & set(n.origin or (n.name,))]
    inside = {v for n in chosen for v in n.outputs}
    entering = {v for n in chosen for v in n.inputs if v is not None and v.const is None and v not in inside}
    if not chosen:
        return False
    given = {v.name for v in source.inputs}
    wanted = sorted(v.name for v in entering if v.name not in given)
    watched = off.watch(wanted, inputs).values if wanted else {}
    graph = Graph("region")
    values: dict[Value, Value] = {}
    arrays: dict[str, np.ndarray] = {}
    for value in sorted(entering, key=lambda v: v.name):
        array = inputs[value.name] if value.name in given else watched[value.name]
        if not isinstance(array, np.ndarray):
            return False
        arrays[value.name] = array
        values[value] = graph.add_input(value.name, of_array(array))
    for node in chosen:
        made = copy_node(node, graph, values)
        for value in made.outputs:
            if isinstance(value.type, TensorType) and not value.type.is_static:
                value.type = None  # sizes follow from the inputs, which are static here
    for node in chosen:
        for value in node.outputs:
            if value.is_output or any(c not in chosen for c in value.consumers):
                graph.add_output(values[value], value.name)
    write_case(folder, graph, arrays)
    return True


def write_script(
    folder: Path,
    title: str,
    model: str,
    *,
    level: str,
    threads: int | None,
    only_sites: Sequence[str] | None,
    disable_kernels: Sequence[str],
    limit: float,
) -> None:
    """Write the script beside the case."""
    text = _SCRIPT.format(
        title=title.replace("\\", "\\\\").replace('"""', "'''"),
        model=Path(model).name,
        version=autofusion.__version__,
        level=level,
        threads=threads,
        only_sites=None if only_sites is None else list(only_sites),
        disable_kernels=list(disable_kernels),
        limit=limit,
    )
    write_text(folder / SCRIPT, text)


def try_script(folder: Path, kind: str, environ: Mapping[str, str], timeout: float) -> str:
    """Run the script; how it ended if it failed as it should, or an empty string."""
    import os

    try:
        done = subprocess.run(
            [sys.executable, SCRIPT],
            cwd=folder,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it did not end"
    if kind == CRASH:
        return f"died of signal {-done.returncode}" if done.returncode < 0 else ""
    if kind == HANG:
        return "stopped by its own time limit" if "Timeout" in done.stderr and done.returncode else ""
    if kind == ERROR:
        return done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else ""
    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong: ")]
    return wrong[0].removeprefix("wrong: ") if done.returncode == 1 and wrong else ""
