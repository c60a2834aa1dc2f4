"""What a model may be handed over as: a path, its bytes, a file object, or a message of its format."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from autofusion.errors import AutofusionError, InputError, ModelError


@runtime_checkable
class Message(Protocol):
    """A protobuf message, as ``onnx.ModelProto`` is."""

    def SerializeToString(self) -> bytes:
        """The message as its file has it."""
        ...


@runtime_checkable
class Readable(Protocol):
    """A file object, opened for bytes."""

    def read(self) -> bytes:
        """The rest of the file."""
        ...


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Message | Readable


@contextlib.contextmanager
def as_file(model: Source) -> Iterator[Path]:
    """The path of ``model`` while the context lasts. Frontends read files: they tell formats apart by their content.

    What is not a path is written to a file of its own, which is removed afterwards; errors call it by what it is.
    Raises InputError for an object that is not a model, ModelError for a message that cannot be written.
    """
    if isinstance(model, str | os.PathLike):
        yield Path(model)
        return
    content, name, what = _content(model)
    if not len(content):
        raise InputError(f"{what} is empty: it has no bytes")
    with tempfile.TemporaryDirectory(prefix="autofusion-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            yield path
        except AutofusionError as error:
            text = str(error).replace(f"'{path}'", what)
            raise type(error)(text) from error


def _content(model: object) -> tuple[bytes | bytearray | memoryview, str, str]:
    """The bytes, a file name whose suffix is the package of a message (``model.onnx``), and what to call it."""
    kind = type(model).__name__
    if isinstance(model, bytes | bytearray | memoryview):
        return model, "model", "the model given as bytes"
    if isinstance(model, Message):
        what = f"the model given as {kind}"
        package = str(getattr(getattr(model, "DESCRIPTOR", None), "full_name", "")).partition(".")[0]
        try:
            return model.SerializeToString(), f"model.{package}" if package.isidentifier() else "model", what
        except Exception as error:  # the protobuf runtimes raise classes of their own
            raise ModelError(
                f"{what} cannot be written as bytes: {error}; a message of 2 GB or more, or one that lacks a required "
                "field, cannot: save the model with external data, and give its path"
            ) from error
    if isinstance(model, Readable):
        what = f"the model read from {getattr(model, 'name', None) or kind}"
        content = model.read()
        if isinstance(content, bytes | bytearray | memoryview):
            return content, "model", what
        raise InputError(f"{what} is {type(content).__name__}, expected bytes: open the file in binary mode ('rb')")
    raise InputError(
        "a model is a path, bytes, a file object opened for bytes, a message such as onnx.ModelProto, or a Graph; "
        f"found an object of type {kind}"
    )
