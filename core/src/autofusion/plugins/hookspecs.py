"""The hooks that a plugin may implement: one for each entry-point group.

A plugin's entry point names a module that only holds hook implementations (``hookimpl`` of ``autofusion.rules``,
``autofusion.kernels`` or ``autofusion.frontends``); heavy imports belong inside them. Each hook returns a list, so that
one distribution can bring several packs.
"""

from __future__ import annotations

import pluggy

from autofusion import frontends, kernels, rules
from autofusion.hooks import PROJECT

hookspec = pluggy.HookspecMarker(PROJECT)

GROUPS = {
    "autofusion.frontends": "autofusion_frontends",
    "autofusion.rules": "autofusion_rule_packs",
    "autofusion.kernels": "autofusion_kernel_packs",
}
"""Entry-point group -> the hook that its plugins implement."""


@hookspec
def autofusion_frontends() -> list[frontends.Frontend]:  # type: ignore[empty-body]
    """Frontends: each loads model files of one format into the IR."""


@hookspec
def autofusion_rule_packs() -> list[rules.RulePack]:  # type: ignore[empty-body]
    """Rule packs: named, versioned sets of rules."""


@hookspec
def autofusion_kernel_packs(target: kernels.Target) -> list[kernels.KernelPack]:  # type: ignore[empty-body]
    """Kernel packs that run on ``target``; an empty list if this machine is not supported."""
