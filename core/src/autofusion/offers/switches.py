"""Switches for kernels: which offers of the kernel packs are left out, by name, by place or by their numerics.

Both sides that ask packs for offers read them: the planner, so that nothing is fused for a kernel that may not run, and
lowering, so that the next best kernel runs instead. With every tuned kernel of a node switched off, the reference
kernels run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autofusion.errors import OptionError, known_name, nearest
from autofusion.ir.graph import Graph, Node
from autofusion.kernels.contract import KernelPack, Offer
from autofusion.options import Options
from autofusion.refusal import Refusal


@dataclass(frozen=True, slots=True)
class KernelSwitch:
    """``PACK[:KERNEL][@NODE]``: a kernel, or all of a pack; at the source node ``site``, or everywhere."""

    text: str
    pack: str
    kernel: str
    site: str

    @classmethod
    def parse(cls, text: str) -> KernelSwitch:
        """Take ``text`` apart; raise OptionError if it is not of that form."""
        name, at, site = text.partition("@")
        pack, colon, kernel = name.partition(":")
        if not pack or (colon and not kernel) or (at and not site):
            raise OptionError(f"'{text}' does not name a kernel: expected PACK[:KERNEL][@NODE], as in cpu:conv@conv1")
        return cls(text, pack, kernel, site)

    def covers(self, node: Node) -> bool:
        """True if the switch holds at ``node``."""
        return not self.site or self.site in (node.origin or (node.name,))


class KernelSwitches:
    """The kernel switches of ``options``; raises OptionError for a pack that is not among ``packs``.

    Node names can only be checked against the whole model: pass its ``graph`` once. Kernel names only show when packs
    are asked: ``require_known`` raises once a whole model has been lowered and nobody offered a name.
    """

    def __init__(self, packs: Sequence[KernelPack], options: Options, graph: Graph | None = None) -> None:
        self._switches = [KernelSwitch.parse(text) for text in sorted(options.disable_kernels)]
        self._numerics = options.numerics
        self.have_sites = any(switch.site for switch in self._switches)
        """Some switch holds at certain nodes only."""
        self._offered: dict[str, set[str]] = {pack.name: set() for pack in packs}
        sites = set(site_names(graph)) if graph is not None and any(s.site for s in self._switches) else None
        for switch in self._switches:
            known_name(switch.pack, self._offered, "kernel pack")
            if sites is not None and switch.site:
                known_name(switch.site, sites, "node to switch kernels off at")

    def refusal(self, pack: KernelPack, offer: Offer, node: Node) -> Refusal | None:
        """Why the kernel that ``pack`` offers may not run ``node``, or None."""
        kernel, numerics = offer.kernel, offer.numerics
        self._offered.setdefault(pack.name, set()).add(kernel)
        if numerics.exceeds(self._numerics):
            only = f"option 'numerics' only allows {self._numerics.value} ones"
            return Refusal(f"kernel '{kernel}' is {numerics.value}, and {only}", node)
        for switch in self._switches:
            if switch.pack == pack.name and switch.kernel in ("", kernel) and switch.covers(node):
                return Refusal(f"kernel '{kernel}' is switched off by '{switch.text}'", node)
        return None

    def has_site_switch(self, node: Node) -> bool:
        """True if some switch holds at ``node`` in particular: it is not like other nodes of its structure."""
        return any(switch.site and switch.covers(node) for switch in self._switches)

    def require_known(self) -> None:
        """Raise OptionError for a kernel name that no pack has offered for any node so far."""
        for switch in self._switches:
            offered = self._offered.get(switch.pack, set())
            if switch.kernel and switch.kernel not in offered:
                raise OptionError(
                    f"pack '{switch.pack}' offers no kernel '{switch.kernel}' for this model"
                    f"{nearest(switch.kernel, offered) or _those(offered)}"
                )


def site_names(graph: Graph) -> Iterator[str]:
    """Every name that a site in ``graph`` or in a body inside it may have."""
    for node in graph.nodes:
        yield from (node.name, *node.origin)
        for value in node.attrs.values():
            if isinstance(value, Graph):
                yield from site_names(value)


def _those(offered: Iterable[str]) -> str:
    names = sorted(offered)
    return f"; it offers {', '.join(names[:12])}{'...' if len(names) > 12 else ''}" if names else "; it offers none"
