"""3x3 convolutions by Winograd's minimal filtering: a third to a quarter of the multiplications.

A result differs from the definition's by rounding: no more than a sum of the products one by one for 2x2 tiles, two to
three times as much for 4x4. It is *another algorithm* in one more respect: every output of a tile is a combination of
all inputs of the tile. A NaN or an infinity in the input turns all outputs of the tiles that see it into NaN, not only
those whose window it is in, and inputs within a few powers of two of overflow may do so as well. Offers say so
(`Numerics.APPROXIMATE`), and the kernel notes it, so that such a run is repeated with the direct convolution
(`NotFinite`).
"""

from __future__ import annotations

from autofusion_kernels_cpu.conv.winograd.offers import applies, border, offer

TILES = (4, 2)
"""Sides of the output tiles on offer."""

__all__ = ["TILES", "applies", "border", "offer"]
