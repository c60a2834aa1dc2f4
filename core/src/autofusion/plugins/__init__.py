"""Plugin contracts and discovery."""

from autofusion.plugins.hookspecs import hookimpl

__all__ = ["hookimpl"]
