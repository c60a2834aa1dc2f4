"""The exceptions that programs catch, by the names that onnxruntime's Python interface gives them."""

from __future__ import annotations

from typing import NoReturn

from autofusion.errors import AutofusionError, GraphError, InputError, KernelError, ModelError, UnsupportedOperatorError


class Fail(Exception):
    """Anything that has no class of its own."""


class InvalidArgument(Exception):
    """A wrong input or output name, element type, rank or size."""


class NoSuchFile(Exception):
    """The model file does not exist."""


class NoModel(Exception):
    """A session without a model."""


class EngineError(Exception):
    """A device failed."""


class RuntimeException(Exception):
    """A kernel failed."""


class InvalidProtobuf(Exception):
    """The file, or the bytes, are not a model."""


class ModelLoaded(Exception):
    """A session that has a model already."""


class NotImplemented(Exception):
    """An operator that nobody implements."""


class InvalidGraph(Exception):
    """The model breaks a rule of its format."""


class EPFail(Exception):
    """An execution provider failed."""


class ModelLoadCanceled(Exception):
    """Loading was called off."""


class ModelRequiresCompilation(Exception):
    """The model must be compiled first."""


class NotFound(Exception):
    """Something that was named does not exist."""


class DeviceReset(Exception):
    """A device was reset."""


CODES: dict[str, tuple[int, str]] = {
    "Fail": (1, "FAIL"),
    "InvalidArgument": (2, "INVALID_ARGUMENT"),
    "NoSuchFile": (3, "NO_SUCHFILE"),
    "NoModel": (4, "NO_MODEL"),
    "EngineError": (5, "ENGINE_ERROR"),
    "RuntimeException": (6, "RUNTIME_EXCEPTION"),
    "InvalidProtobuf": (7, "INVALID_PROTOBUF"),
    "ModelLoaded": (8, "MODEL_LOADED"),
    "NotImplemented": (9, "NOT_IMPLEMENTED"),
    "InvalidGraph": (10, "INVALID_GRAPH"),
    "EPFail": (11, "EP_FAIL"),
    "ModelLoadCanceled": (12, "MODEL_LOAD_CANCELED"),
    "ModelRequiresCompilation": (13, "MODEL_REQUIRES_COMPILATION"),
    "NotFound": (14, "NOT_FOUND"),
    "DeviceReset": (15, "DEVICE_RESET"),
}
"""Status code and its name, which programs find in the message."""
CLASSES: dict[str, type[Exception]] = {name: globals()[name] for name in CODES}


def failure(name: str, message: str) -> Exception:
    """An exception of the class ``name``, with the message in the form that programs know."""
    code, status = CODES[name]
    return CLASSES[name](f"[ONNXRuntimeError] : {code} : {status} : {message}")


def of_loading(error: BaseException) -> Exception:
    """What programs expect in the place of ``error``, which was raised when a model was read or compiled."""
    if isinstance(error, UnsupportedOperatorError | KernelError):
        return failure("NotImplemented", str(error))
    if isinstance(error, ModelError):
        return failure("InvalidProtobuf", str(error))
    if isinstance(error, GraphError):
        return failure("InvalidGraph", str(error))
    if isinstance(error, InputError):
        return failure("InvalidArgument", str(error))
    return failure("Fail", str(error))


def of_running(error: BaseException) -> Exception:
    """What programs expect in the place of ``error``, which was raised by a run."""
    if isinstance(error, InputError):
        return failure("InvalidArgument", str(error))
    if isinstance(error, UnsupportedOperatorError):
        return failure("NotImplemented", str(error))
    return failure("RuntimeException" if isinstance(error, AutofusionError) else "Fail", str(error))


def raise_ours(error: Exception) -> NoReturn:
    """Raise ``error`` of the real onnxruntime as the exception of that name here; any other as it is."""
    known = CLASSES.get(type(error).__name__)
    if known is not None and type(error).__module__.startswith("onnxruntime."):
        raise known(str(error)) from error
    raise error
