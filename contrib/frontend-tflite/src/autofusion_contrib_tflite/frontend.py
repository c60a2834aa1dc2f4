"""The frontend object: recognises, loads, and runs by LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from autofusion.frontends import LoadOptions, ModelError, PluginError, Reference, naming_file
from autofusion.ir.graph import Graph

IDENTIFIER = b"TFL3"


class TfliteFrontend:
    """See ``autofusion.frontends.Frontend``."""

    name = "tflite"
    version = version("autofusion-contrib-frontend-tflite")
    suffixes: Sequence[str] = (".tflite", ".lite")

    def recognises(self, path: Path) -> bool:
        """True if the file carries the identifier of the format."""
        try:
            with path.open("rb") as file:
                return file.read(8)[4:] == IDENTIFIER
        except OSError:
            return False

    def load(self, path: Path, options: LoadOptions) -> Graph:
        """The graph of the model's first subgraph; ModelError for whatever cannot be read, by name."""
        from autofusion_contrib_tflite.reader import Reader
        from autofusion_contrib_tflite.registry import TABLE

        with naming_file(path, (Exception,)):  # a damaged FlatBuffer makes its accessors raise whatever comes
            content = path.read_bytes()
            if content[4:8] != IDENTIFIER:
                raise ModelError(f"expected the identifier {IDENTIFIER!r} at byte 4, found {content[4:8]!r}")
            return Reader(content, TABLE.extended(options.converters)).graph(options.inputs, options.outputs)

    def reference(self, path: Path, options: LoadOptions) -> Reference:
        """The model run by LiteRT, without delegates; PluginError if that is not installed."""
        try:
            from ai_edge_litert.interpreter import Interpreter, OpResolverType
        except ImportError as error:
            raise PluginError(f"LiteRT is not installed ({error}); pip install ai-edge-litert") from error
        from autofusion_contrib_tflite.reader import Reader
        from autofusion_contrib_tflite.registry import TABLE

        reader = Reader(path.read_bytes(), TABLE)
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)

        def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            for name, index in reader.inputs.items():
                interpreter.resize_tensor_input(index, inputs[name].shape)
            interpreter.allocate_tensors()
            for name, index in reader.inputs.items():
                interpreter.set_tensor(index, inputs[name])
            interpreter.invoke()
            return {name: interpreter.get_tensor(index) for name, index in reader.outputs.items()}

        return run
