"""Reads ONNX models into the Autofusion graph."""
