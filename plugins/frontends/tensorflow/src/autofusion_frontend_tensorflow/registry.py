"""The table of converters: how an operator of TensorFlow is said in the IR's operators.

A converter is a function from a ``Call`` to one value for each result of the node, None for one that nobody wants.
``outputs`` are the names of the results where there is more than one: inside functions results are called by name.
"""

from autofusion.frontends import ConverterTable

TABLE = ConverterTable("tensorflow", "autofusion_frontend_tensorflow.converters")
converter = TABLE.converter
