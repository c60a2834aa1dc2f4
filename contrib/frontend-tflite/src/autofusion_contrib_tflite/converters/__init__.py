"""One converter for each TensorFlow Lite operator: the operators of the IR that say the same."""
