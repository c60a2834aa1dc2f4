"""The table of converters: how an operator of some version is said in the IR's operators.

A converter is a function from a ``Call`` to one value for each of the node's results. An operator without an entry for
its version passes through as it is. Other packages add converters for operators of their own domains, which are called
``domain::Operator``; the default domain is not theirs to change.
"""

from __future__ import annotations

from collections.abc import Callable

from autofusion.frontends import Converter, ConverterTable

TABLE = ConverterTable("onnx", "autofusion_frontend_onnx.converters")


def operator_name(domain: str, op: str) -> str:
    """What ``op`` of ``domain`` ('' is the default one) is called in the IR and in the table."""
    return f"{domain}::{op}" if domain else op


def converter(
    *ops: str, since: int = 1, before: int | None = None, domain: str = ""
) -> Callable[[Converter], Converter]:
    """Register the decorated function for operators of one domain, from operator set ``since`` on, until ``before``."""
    return TABLE.converter(*(operator_name(domain, op) for op in ops), since=since, before=before)


def find_converter(table: ConverterTable, domain: str, op: str, version: int) -> Converter | None:
    """The converter for ``op`` at ``version``, or None if it passes through."""
    name = operator_name(domain, op)
    return None if not domain and table.is_added(name) else table.find(name, version)
