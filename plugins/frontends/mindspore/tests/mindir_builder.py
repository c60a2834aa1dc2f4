"""Writes the MindIR files that the tests read, with the results of MindSpore's own run beside each.

Run in a process of its own (`python mindir_builder.py FOLDER NAME...`): MindSpore is slow to import, slow to run, and
noisy when the interpreter ends, so everything it makes is kept in the cache folder under a digest of its recipe.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from autofusion_frontend_mindspore.reference import ENVIRONMENT
from autofusion_frontend_mindspore.worker import flat, start

for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)


def randomise(net: Any, rng: np.random.Generator) -> None:
    """Give normalisations statistics and scales that are not the identity: a misread one then shows."""
    import mindspore as ms

    for parameter in net.get_parameters():
        leaf = parameter.name.rsplit(".", 1)[-1]
        shape = parameter.shape
        if leaf in ("moving_variance", "gamma"):
            data = rng.uniform(0.8, 1.25, shape)
        elif leaf in ("moving_mean", "beta", "bias") and len(shape) == 1:
            data = rng.normal(0, 0.05, shape)
        else:
            continue
        parameter.set_data(ms.Tensor(data.astype(np.float32)))


def write(folder: Path, name: str, net: Any, inputs: list[Any], dynamic: Any = None) -> None:
    """Export ``net`` to ``folder/name.mindir`` and store inputs and MindSpore's results in ``folder/name.npz``.

    ``dynamic`` are the tensors to export with, where their shapes differ from those to run with. What only MindSpore's
    export can do, and not its run on a CPU, is compared with the cell's attribute ``expected``.
    """
    import mindspore as ms
    from mindspore import nn

    net.set_train(False)
    tensors = [ms.Tensor(x) for x in inputs]
    part = folder / f"{name}.part.mindir"
    part.unlink(missing_ok=True)
    ms.export(net, *(tensors if dynamic is None else dynamic), file_name=str(part), file_format="MINDIR")
    expected = getattr(net, "expected", None)
    if expected is None:
        results = flat(nn.GraphCell(ms.load(str(part)))(*tensors))
    else:
        results = flat(tuple(expected(*inputs)))
    stored = {f"in{i}": x for i, x in enumerate(inputs)} | {f"out{i}": y for i, y in enumerate(results)}
    np.savez(folder / f"{name}.npz", **stored)
    os.replace(part, folder / f"{name}.mindir")


def make(name: str) -> tuple[Any, ...]:
    """The network called ``name``, with its inputs: one of `mindir_nets`, or an architecture of mindcv."""
    if name.startswith("mindcv-"):
        import mindcv

        size = {"inception_v3": 299, "inception_v4": 299, "xception": 299}.get(name.removeprefix("mindcv-"), 224)
        image = np.random.default_rng(1).standard_normal((1, 3, size, size)).astype(np.float32)
        return mindcv.create_model(name.removeprefix("mindcv-"), pretrained=False, num_classes=100), [image]
    from plugins.frontends.mindspore.tests import mindir_nets
    from plugins.frontends.mindspore.tests.mindir_cache import NETWORKS

    for module in NETWORKS:
        import_module(f"plugins.frontends.mindspore.tests.{module}")
    return mindir_nets.NETS[name]()


def main(arguments: list[str]) -> int:
    """Make the named networks; return how many failed. What went wrong is left in NAME.error."""
    import mindspore as ms

    folder, names = Path(arguments[0]).resolve(), arguments[1:]
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    start()
    failures = 0
    for name in names:
        np.random.seed(0)
        ms.set_seed(0)
        try:
            made = make(name)
            randomise(made[0], np.random.default_rng(0))
            write(folder, name, *made)
            (folder / f"{name}.error").unlink(missing_ok=True)
        except Exception:
            failures += 1
            (folder / f"{name}.error").write_text(traceback.format_exc())
            print(f"{name}: {traceback.format_exc().strip().splitlines()[-1]}", flush=True)
    return failures


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(min(status, 100))  # an ordinary end prints a traceback for every cell
