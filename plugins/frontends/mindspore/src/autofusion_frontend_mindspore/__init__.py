"""Reads MindSpore MindIR files into the Autofusion graph."""
