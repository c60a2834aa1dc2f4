"""The process that runs a MindIR in MindSpore; see ``reference``. Messages are a length of 8 bytes and that many bytes.

It gets the key, then inputs as an npz, time and again, and answers each with two messages: whether it failed (empty if
not), and the results as an npz, or the error.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import sys
from typing import Any, BinaryIO

import numpy as np


def flat(result: Any) -> list[np.ndarray]:
    """Results with tuples flattened from left to right, as arrays."""
    if isinstance(result, tuple | list):
        return [each for item in result for each in flat(item)]
    if isinstance(result, float):
        return [np.asarray(result, np.float32)]  # as MindSpore makes a tensor of it
    return [result.asnumpy() if hasattr(result, "asnumpy") else np.asarray(result)]


def warm_up() -> None:
    """The first operation of a process fails where MindSpore was built for an older NumPy; later ones do not."""
    import mindspore

    with contextlib.suppress(SystemError):
        (mindspore.Tensor(np.ones(2, np.float32)) + 1).asnumpy()


def start() -> None:
    """Set MindSpore up for running graphs on the CPU."""
    import mindspore

    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    mindspore.set_device("CPU")
    warm_up()


def load(path: str, cipher: str, key: bytes) -> Any:
    """The model as something to call with tensors."""
    import mindspore

    secret = {"dec_key": key, "dec_mode": cipher} if cipher else {}
    return mindspore.nn.GraphCell(mindspore.load(path, **secret))


def receive(file: BinaryIO) -> bytes | None:
    """The next message, or None at the end."""
    head = file.read(8)
    return file.read(struct.unpack("<Q", head)[0]) if len(head) == 8 else None


def send(file: BinaryIO, data: bytes) -> None:
    """Write a message."""
    file.write(struct.pack("<Q", len(data)) + data)
    file.flush()


def main(path: str, cipher: str, kept: str) -> None:
    """Answer until the other side closes."""
    # MindSpore prints where it likes: what it prints must not get into the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    key = receive(sys.stdin.buffer) or b""
    model: Any = None
    while (message := receive(sys.stdin.buffer)) is not None:
        try:
            if model is None:
                import mindspore

                start()
            if model is None or kept != "kept":
                model = load(path, cipher, key)
            with np.load(io.BytesIO(message)) as stored:
                tensors = [mindspore.Tensor(stored[f"arr_{i}"]) for i in range(len(stored.files))]
            buffer = io.BytesIO()
            np.savez(buffer, *flat(model(*tensors)))
        except Exception as error:
            send(answers, b"failed")
            send(answers, f"{type(error).__name__}: {error}".encode())
        else:
            send(answers, b"")
            send(answers, buffer.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:4])
    os._exit(0)  # an ordinary end prints a traceback for every cell
