"""Intermediate representation: types, graph, operators, text form, verifier. Imports nothing of the other layers."""

from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.types import Dim, OptionalType, SequenceType, Shape, TensorType, Type

__all__ = ["FUSED", "Dim", "Graph", "Node", "OptionalType", "SequenceType", "Shape", "TensorType", "Type", "Value"]
