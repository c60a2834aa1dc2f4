"""Transformer rules: LayerNormalization, Gelu, attention and friends."""
