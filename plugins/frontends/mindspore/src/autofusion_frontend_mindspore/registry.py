"""The table of converters: what a primitive of MindSpore means in the IR's operators.

A converter is a function from a ``Call`` to the primitive's result: an IR value, a Python value, or a tuple of them.
"""

from autofusion.frontends import ConverterTable

TABLE = ConverterTable("mindspore", "autofusion_frontend_mindspore.converters")
converter = TABLE.converter
