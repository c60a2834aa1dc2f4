"""``InferenceSession``: a compiled model behind onnxruntime's interface, with the real one to fall back on."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.errors import InputError
from autofusion.forks import RenewedLock
from autofusion.onnxruntime import errors
from autofusion.onnxruntime.binding import IOBinding
from autofusion.onnxruntime.fallback import Fallback
from autofusion.onnxruntime.options import RunOptions, SessionOptions
from autofusion.onnxruntime.signature import ModelMetadata, NodeArg, arguments, metadata
from autofusion.onnxruntime.values import OrtValue, plain
from autofusion.options import from_environment, merge
from autofusion.plugins.records import describe
from autofusion.runtime.compile import compile, load
from autofusion.runtime.session import Session

CPU = "CPUExecutionProvider"


class InferenceSession:
    """Runs a model from a path or from bytes.

    A model that cannot be loaded, or whose run fails on inputs that fit it, is handed to the real onnxruntime if that
    is installed, with one warning that says why; ``AUTOFUSION_STRICT=1`` makes that an error. Raises the exceptions of
    ``onnxruntime.capi.onnxruntime_pybind11_state``.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(path_or_bytes, str | bytes | os.PathLike):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options must be a SessionOptions, found {type(sess_options).__name__}")
        self._options = sess_options if sess_options is not None else SessionOptions()
        _say_missing(providers)
        source = path_or_bytes if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        if not isinstance(source, bytes) and not os.path.exists(source):
            raise errors.failure("NoSuchFile", f"Load model from {source} failed. File doesn't exist")
        self._fallback = Fallback(source, self._options)
        self._lock = RenewedLock()
        self._real: Any = None
        """The session of the real onnxruntime, once it has taken over."""
        self._session: Session | None = None
        self._loose = False
        """Whether inputs have to be brought into the form that the session takes."""
        beyond = self._options.beyond()
        if beyond:
            what = f"only the real onnxruntime has {beyond}"
            self._take_over(what, errors.failure("NotImplemented", what))
        else:
            self._compile(source)

    def _compile(self, source: str | bytes) -> None:
        try:
            graph = load(source)
            # The environment is the user's word, the options are the program's.
            options = merge(self._options.stated_options(), from_environment(os.environ))
            # Kept for as long as the session: what it looks like does not change when another runtime takes over.
            self._inputs, self._outputs, self._defaults = arguments(graph)
            self._meta = metadata(graph)
            self._session = compile(graph, **options)
        except Exception as error:  # a fault of ours is no reason for the program to stop
            self._take_over(describe(error), errors.of_loading(error))
        self._output_names = [each.name for each in self._outputs]
        self._required = frozenset(each.name for each in self._inputs)

    def _take_over(self, reason: str, otherwise: Exception) -> None:
        """Let the real onnxruntime run the model from now on; raise ``otherwise`` where it may not, or is missing."""
        session = self._fallback.session()
        if session is None:
            raise otherwise
        self._adopt(session, reason)

    def _adopt(self, session: Any, reason: str) -> None:
        self._real = session
        self._inputs, self._outputs, self._defaults = (
            [NodeArg(each.name, each.type, list(each.shape)) for each in found]
            for found in (session.get_inputs(), session.get_outputs(), session.get_overridable_initializers())
        )
        self._output_names = [each.name for each in self._outputs]
        self._required = frozenset(each.name for each in self._inputs)
        meta = session.get_modelmeta()
        self._meta = ModelMetadata(**{name: getattr(meta, name) for name in ModelMetadata.__dataclass_fields__})
        self._session = None
        self._fallback.warn(reason)

    # ---- looking -----------------------------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that every run must be given."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs with a stored default."""
        return list(self._defaults)

    def get_modelmeta(self) -> ModelMetadata:
        """Who made the model, and its own named texts."""
        return self._meta

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """The CPU."""
        return [CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """None for the CPU."""
        return {CPU: {}}

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: Any = None) -> None:
        """Warn of providers that do not exist here; the model stays on the CPU."""
        _say_missing(providers)

    def enable_fallback(self) -> None:
        """Between providers, of which there is one."""

    def disable_fallback(self) -> None:
        """Between providers, of which there is one."""

    def end_profiling(self) -> str:
        """The file that the real onnxruntime wrote; raise Fail if it does not run the model."""
        if self._real is None:
            raise errors.failure("Fail", "profiling was not enabled; 'autofusion profile' shows where time goes")
        return str(self._real.end_profiling())

    # ---- running -----------------------------------------------------------------------------------------------

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs named, in that order, or all; raise as onnxruntime does for what does not fit the model."""
        missing = self._required - input_feed.keys()
        if missing:
            names = [name for name in self._required if name in missing]
            raise ValueError(f"Required inputs ({names}) are missing from input feed ({list(input_feed)}).")
        if output_names:
            self._check_outputs(output_names)
        if run_options is not None:
            _check_options(run_options)
        results = self._results(input_feed)
        if not output_names:
            return [results[name] for name in self._output_names]
        return [results[name] for name in output_names]

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Like ``run``, on values."""
        return [OrtValue(each) for each in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in a thread of its own; it calls ``callback(results, user_data, error message)``."""

        def work() -> None:
            try:
                results, problem = self.run(output_names, input_feed, run_options), ""
            except Exception as error:
                results, problem = [], str(error)
            callback(results, user_data, problem)

        threading.Thread(target=work, name="autofusion-run-async", daemon=True).start()

    def io_binding(self) -> IOBinding:
        """A binding of this session's inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound; the binding holds the results."""
        if not iobinding.outputs:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        unknown = [name for name in iobinding.outputs if name not in self._output_names]
        if unknown:
            raise RuntimeError(f"Error in execution: Invalid output name:{unknown[0]}")
        iobinding.keep(self.run(list(iobinding.outputs), iobinding.inputs, run_options))

    def _results(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        session = self._session
        if session is None:
            return self._run_really(feed)
        try:
            return session.run(self._fitted(session, feed) if self._loose else feed)
        except Exception as error:
            reason = error
        return self._again(session, feed, reason)

    def _again(self, session: Session, feed: Mapping[str, Any], error: Exception) -> Mapping[str, Any]:
        """After a failure: with the values in the form that the session takes, or by the real onnxruntime."""
        given = self._fitted(session, feed)
        if not self._loose and any(given[name] is not feed[name] for name in feed):
            self._loose = True  # whoever passes lists once will do so again
            return self._results(feed)
        if isinstance(error, InputError):
            try:
                for value in session.graph.inputs:  # each alone: onnxruntime lets sizes of one symbol differ
                    if value.name in given and value.shape != ():
                        session.check(value.name, given[value.name])
            except InputError as wrong:
                raise errors.failure("InvalidArgument", str(wrong)) from error
        real = self._fallback.session()
        if real is None:
            raise errors.of_running(error) from error
        try:
            results = real.run(None, given)
        except Exception as other:  # the real onnxruntime cannot either: the inputs are to blame
            errors.raise_ours(other)
        with self._lock:
            if self._session is not None:
                self._adopt(real, describe(error))
        return dict(zip(self._output_names, results, strict=True))

    def _fitted(self, session: Session, feed: Mapping[str, Any]) -> dict[str, Any]:
        """The values as arrays of the shapes that the session takes, as far as onnxruntime would take them."""
        known = {value.name: value for value in session.graph.inputs}
        for name in feed:
            if name not in known:
                raise errors.failure("InvalidArgument", f"Invalid input name: {name}")
        fitted = {}
        for name, value in feed.items():
            array = _array(name, plain(value), known[name].dtype)
            # onnxruntime checks no shape where a scalar is declared, and programs pass one element in a list.
            if known[name].shape == () and isinstance(array, np.ndarray) and array.shape and array.size == 1:
                array = array.reshape(())
            fitted[name] = array
        return fitted

    def _run_really(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            results = self._real.run(None, {name: plain(value) for name, value in feed.items()})
        except Exception as error:
            errors.raise_ours(error)
        return dict(zip(self._output_names, results, strict=True))

    def _check_outputs(self, names: Iterable[str]) -> None:
        if isinstance(names, str):
            raise TypeError(f"run(): output_names must be a list of names, found the name '{names}'")
        for name in names:
            if name not in self._output_names:
                raise errors.failure("InvalidArgument", f"Invalid output name:{name}")


def _array(name: str, value: Any, dtype: np.dtype | None) -> Any:
    """A list as an array, as onnxruntime takes it; raise RuntimeError for what it does not take."""
    if isinstance(value, np.ndarray) or value is None or dtype is None:
        return value
    if isinstance(value, np.generic | int | float | bool | complex):
        raise RuntimeError(f"input '{name}': Unable to handle object of type {type(value)}")
    if not isinstance(value, list | tuple):
        raise RuntimeError(f"Input must be a list of dictionaries or a single numpy array for input '{name}'.")
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise RuntimeError(f"input '{name}': the list is not a tensor of {dtype}: {error}") from error


def _check_options(options: Any) -> None:
    if not isinstance(options, RunOptions):
        raise TypeError(f"run(): run_options must be a RunOptions, found {type(options).__name__}")
    if options.terminate:
        raise errors.failure("Fail", "Exiting due to terminate flag being set to true.")


def _say_missing(providers: Sequence[Any] | None) -> None:
    for each in providers or ():
        name = each[0] if isinstance(each, tuple) else each
        if name not in available_providers():
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. "
                f"Available providers: '{', '.join(available_providers())}'",
                stacklevel=4,
            )


def available_providers() -> list[str]:
    """The CPU."""
    return [CPU]
