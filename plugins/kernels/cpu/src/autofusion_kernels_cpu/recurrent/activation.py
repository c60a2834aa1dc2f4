"""The activation functions that recurrent operators name, with their parameters resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autofusion.ir.graph import Node
from autofusion_kernels_cpu.codegen import vmath
from autofusion_kernels_cpu.codegen.builder import Function
from autofusion_kernels_cpu.codegen.values import Value
from autofusion_kernels_cpu.unsupported import Unsupported

# name -> (code, default alpha, default beta); None where the function has no such parameter.
_FUNCTIONS: dict[str, tuple[Callable[[Function, Value, float, float], Value], float | None, float | None]] = {
    "affine": (lambda f, x, a, b: x * a + b, 1.0, 0.0),
    "elu": (lambda f, x, a, b: vmath.elu(f, x, a), 1.0, None),
    "hardsigmoid": (lambda f, x, a, b: f.min(f.max(x * a + b, 0.0), 1.0), 0.2, 0.5),
    "leakyrelu": (lambda f, x, a, b: f.select(x < 0.0, x * a, x), 0.01, None),
    "relu": (lambda f, x, a, b: f.max(x, 0.0), None, None),
    "scaledtanh": (lambda f, x, a, b: vmath.tanh(f, x * b) * a, 1.0, 1.0),
    "sigmoid": (lambda f, x, a, b: vmath.sigmoid(f, x), None, None),
    "softplus": (lambda f, x, a, b: vmath.softplus(f, x), None, None),
    "softsign": (lambda f, x, a, b: x / (f.abs(x) + 1.0), None, None),
    "tanh": (lambda f, x, a, b: vmath.tanh(f, x), None, None),
    "thresholdedrelu": (lambda f, x, a, b: f.select(x > a, x, 0.0), 1.0, None),
}


@dataclass(frozen=True, slots=True)
class Activation:
    """A function with its parameters; part of a kernel's structure. Its operand is first bounded to +-clip, if any."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0
    clip: float | None = None

    def __call__(self, f: Function, x: Value) -> Value:
        if self.clip is not None:
            x = f.min(f.max(x, -self.clip), self.clip)
        return _FUNCTIONS[self.name][0](f, x, self.alpha, self.beta)


def activations(node: Node, defaults: list[str], directions: int) -> list[tuple[Activation, ...]]:
    """Those of each direction. `activation_alpha` and `activation_beta` go in order to the functions that have one."""
    names = [str(name).lower() for name in node.attr("activations") or defaults * directions]
    alphas = [float(x) for x in node.attr("activation_alpha") or []]
    betas = [float(x) for x in node.attr("activation_beta") or []]
    clip = node.attr("clip")
    made = []
    for name in names:
        if name not in _FUNCTIONS:
            raise Unsupported(f"there is no activation '{name}'")
        _, alpha, beta = _FUNCTIONS[name]
        if alpha is not None and alphas:
            alpha = alphas.pop(0)
        if beta is not None and betas:
            beta = betas.pop(0)
        made.append(Activation(name, alpha or 0.0, beta or 0.0, None if clip is None else float(clip)))
    count = len(defaults)
    # What comes out of the cell is not bounded: only LSTM has a third function, and it sees the cell state.
    made = [Activation(a.name, a.alpha, a.beta) if i % count == 2 else a for i, a in enumerate(made)]
    return [tuple(made[i * count : (i + 1) * count]) for i in range(directions)]
