"""The table of converters, which returns one value for each result of the operator, or one value alone."""

from autofusion.frontends import ConverterTable

TABLE = ConverterTable("tflite", "autofusion_contrib_tflite.converters")
converter = TABLE.converter
