"""Operators of the domain ai.onnx.ml, in which pipelines of classical models come, said in standard operators."""
