"""Reads TensorFlow frozen graphs and SavedModels into the Autofusion graph."""
