"""Compiled models in one file: see ``container`` for the format, ``save`` and ``session`` for its two sides."""
