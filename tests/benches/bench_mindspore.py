"""Latency against MindSpore in its best setting, side by side: graph mode, 2 threads, oneDNN held to AVX2.

    python -m tests.benches.bench_mindspore [--seconds N] [--off] [--default] [MODEL ...]

Models are those of mindcv with random weights at batch 1. The two take turns in short blocks, so that a busy machine
slows both. `--default` measures MindSpore as it comes instead: on a machine with AVX-512 its oneDNN then takes a scalar
convolution.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import autofusion as af
from autofusion.tools.bench import geometric_mean, interleave
from autofusion.tools.compare import difference
from autofusion_frontend_mindspore.reference import ENVIRONMENT
from plugins.frontends.mindspore.tests import mindir_cache

MODELS = ("resnet18", "mobilenet_v2_100", "densenet121", "vit_b_32_224", "squeezenet1_0")
THREADS = 2


def mindspore_run(path: Path, image: np.ndarray) -> Callable[[], Any]:
    """The exported model in graph mode; results are brought back as arrays."""
    import mindspore

    from autofusion_frontend_mindspore.worker import load

    model, tensor = load(str(path), "", b""), mindspore.Tensor(image)
    return lambda: model(tensor).asnumpy()


def main(arguments: list[str] | None = None) -> None:
    """Print a line a model, and the geometric mean of the ratios of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--seconds", type=float, default=12.0, help="for each model, all contenders together")
    parser.add_argument("--off", action="store_true", help="also without fusion")
    parser.add_argument("--default", action="store_true", help="MindSpore without the setting for oneDNN")
    options = parser.parse_args(arguments)
    os.environ.setdefault("GLOG_v", "4")
    if not options.default:
        os.environ.update(ENVIRONMENT)
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    os.chdir(mindir_cache.folder("mindcv"))  # where MindSpore leaves what it writes

    from autofusion_frontend_mindspore.worker import start

    start()
    ratios = []
    for name in options.models:
        network = mindir_cache.exported(f"mindcv-{name}")
        (image,) = network.inputs
        contenders = {"mindspore": mindspore_run(network.path, image)}
        for level in ("full", "off") if options.off else ("full",):
            session = af.compile(network.path, level=level, threads=THREADS)
            (given,) = (v.name for v in session.graph.inputs)
            contenders[level] = functools.partial(session.run, {given: image})
        found = difference(contenders["full"]()["out0"], contenders["mindspore"]())
        timings = {t.name: t for t in interleave(contenders, seconds=options.seconds, block=0.3)}
        full, theirs = timings["full"], timings["mindspore"]
        ratios.append(theirs.median / full.median)
        print(
            f"{name:18} "
            + "  ".join(f"{n} {1e3 * t.median:7.2f} (min {1e3 * t.minimum:7.2f}) ms" for n, t in timings.items())
            + f"  MindSpore takes {ratios[-1]:.2f}x (minimum {theirs.minimum / full.minimum:.2f}x)"
            + f"  max-abs over range {found.max_over_range:.1e}",
            flush=True,
        )
    print(f"geometric mean over {len(ratios)} models: MindSpore takes {geometric_mean(ratios):.2f}x")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # an ordinary end prints a traceback for every cell
