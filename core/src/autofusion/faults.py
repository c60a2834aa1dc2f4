"""What may be caught around a plugin's code: what the plugin itself raised, and nothing that merely came while it ran.

``except PLUGIN_FAULTS as error: require_own(error)`` is how every guard begins. Exceptions that signal handlers raise
(a timeout, the SystemExit of a graceful shutdown) and those that other threads throw into this one
(``PyThreadState_SetAsyncExc``) surface inside whatever runs at that moment, often a plugin. They are meant for whoever
called the session, so ``require_own`` raises them again, also where the plugin has wrapped them in another exception.
"""

from __future__ import annotations

import opcode
import signal
from collections.abc import Iterator
from queue import Empty
from types import FrameType, TracebackType

PLUGIN_FAULTS: tuple[type[BaseException], ...] = (Exception, SystemExit)
"""What is caught around a plugin's code: a plugin does not decide when the process ends. An interrupt is the user's."""


class Overrun(BaseException):
    """Thrown by the thread that watches into plugin code whose time is over; never seen outside of a guard."""


_RAISING = frozenset({"RAISE_VARARGS", "RERAISE"})
"""Instructions by which Python code raises."""
_CHECKING = frozenset({"RESUME", "JUMP_BACKWARD"})
"""Instructions that can only fail because the interpreter found something pending."""
_BARE_FROM_C = (StopIteration, StopAsyncIteration, MemoryError, Empty)
"""What C code raises without arguments."""


def require_own(error: BaseException) -> None:
    """Raise ``error`` again, or the exception that it wraps, unless the code that raised it decided to.

    To be called where ``error`` is handled.
    """
    for each in _chain(error):
        if _is_from_signal(each) or _is_thrown_in(each):
            if each is error:
                raise error
            raise each from each.__cause__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error`` and what was being handled when it was raised, if that was raised within the same guarded call."""
    guard = error.__traceback__
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if each is error or (guard is not None and _passed(each.__traceback__, guard.tb_frame)):
            yield each
        each = each.__cause__ or each.__context__


def _passed(traceback: TracebackType | None, guard: FrameType) -> bool:
    """True if the frame at the top of ``traceback`` was called, however indirectly, by the frame ``guard``."""
    frame = None if traceback is None else traceback.tb_frame
    while frame is not None:
        if frame is guard:
            return True
        frame = frame.f_back
    return False


def _is_from_signal(error: BaseException) -> bool:
    """True if the exception passed a signal handler: a function called with a signal's number and the very frame that
    was interrupted. (``signal.getsignal`` would miss a handler that has since put another in its place.)
    """
    traceback = error.__traceback__
    while traceback is not None:
        if _is_handler(traceback.tb_frame):
            return True
        traceback = traceback.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    interrupted, code = frame.f_back, frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    if interrupted is None or not count:
        return False
    given = [frame.f_locals.get(name) for name in code.co_varnames[:count]]
    given = [part for value in given for part in (value if isinstance(value, tuple) else (value,))]
    numbers = [value for value in given if isinstance(value, int)]
    return any(value is interrupted for value in given) and any(n in signal.valid_signals() for n in numbers)


def _is_thrown_in(error: BaseException) -> bool:
    """True if another thread threw the exception in: it comes without arguments at an instruction that raises nothing.

    The interpreter makes it from its class where it looks for pending work: at a function's start, a loop's end, or
    after a call. Exceptions that C code raises in a call nearly always have a message; ``sys.exit()`` has none. Code
    that names the exception's class, to handle it, expected it of what it called.
    """
    traceback = error.__traceback__
    if traceback is None or error.args or isinstance(error, Overrun):
        return False
    named = False
    while True:
        code = traceback.tb_frame.f_code
        named |= type(error).__name__ in (*code.co_names, *code.co_varnames, *code.co_freevars)
        if traceback.tb_next is None:
            break
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    name = opcode.opname[code.co_code[traceback.tb_lasti]] if traceback.tb_lasti >= 0 else ""
    if name in _RAISING or isinstance(error, _BARE_FROM_C):
        return False
    if name in _CHECKING:
        return True
    if named:
        return False
    return not (isinstance(error, SystemExit) and not {"exit", "quit", "_exit"}.isdisjoint(code.co_names))
