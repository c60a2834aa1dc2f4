"""Runs models and writes their outputs: `program.py OUT [NAME=MODEL=INPUTS ...]`. Runs under emulation, and here."""

from __future__ import annotations

import sys

import numpy as np

import autofusion as af


def main(out: str, models: list[str]) -> None:
    """One entry for each output, named "model/output"; prints the kernels that ran."""
    found, kernels = {}, set()
    for model in models:
        name, path, data = model.split("=")
        with np.load(data) as file:
            inputs = dict(file)
        session = af.compile(path, shapes={key: value.shape for key, value in inputs.items()}, threads=2)
        kernels |= {str(step.kernel) for step in session.plan.steps}
        found |= {f"{name}/{key}": value for key, value in session.run(inputs).items()}
    np.savez(out, **found)
    print("\n".join(sorted(kernels)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
