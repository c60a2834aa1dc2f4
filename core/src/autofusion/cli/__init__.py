"""The command line: one file a command, imported when it is used."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
import traceback

import click

from autofusion.errors import AutofusionError

FINDING, USAGE, FAILURE, NOTHING = 1, 2, 3, 4
_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM)
"""Errors with a file that are not the fault of whoever named it."""
COMMANDS = (
    "demo",
    "inspect",
    "compile",
    "run",
    "bench",
    "explain",
    "verify",
    "bisect",
    "export",
    "profile",
    "view",
    "calibrate",
    "switches",
    "plugins",
    "rules",
    "cache",
    "lock",
    "record",
    "check",
    "new",
    "test-pack",
)


class _Lazy(click.Group):
    """Imports a command's module when it is asked for, so that ``--help`` and ``plugins`` stay fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"autofusion.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from autofusion.errors import nearest

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command '{args[0]}'{nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="autofusion", prog_name="autofusion")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("-q", "--quiet", "_quiet", is_flag=True, help="Show no progress.")
@click.option("-v", "--verbose", "_verbose", count=True, help="Log plans, fallbacks, compiled kernels; -vv: all.")
@click.option("--locked", "_locked", is_flag=True, help="Keep to ./autofusion.lock; --locked=FILE to another lock.")
@click.pass_context
def cli(context: click.Context, debug: bool, _locked: bool, _quiet: bool, _verbose: int) -> None:
    """Find the places in a trained network that can run as one kernel, and run them so.

    \b
    autofusion demo                      a network unfused and fused, the gain and the proof
    autofusion explain model.onnx        what fuses, what does not and why, which kernel runs what
    autofusion bench model.onnx          latency at level off and full, side by side
    autofusion run model.onnx -o y.npz   run it

    Dims that a model leaves open are stated with --shape NAME:1,3,224,224.
    """
    context.obj = {"debug": debug}


def _keep_to_lock() -> None:
    """Take ``--locked`` and ``--locked=FILE`` off the line, wherever they are, and say so to the registry."""
    for argument in [a for a in sys.argv[1:] if a == "--locked" or a.startswith("--locked=")]:
        os.environ["AUTOFUSION_LOCK"] = argument.partition("=")[2] or "autofusion.lock"
        sys.argv.remove(argument)


def _taken(flags: tuple[str, ...]) -> int:
    """How often ``flags`` are on the line, wherever they are; they are taken off it, -vv counts twice."""
    count = 0
    for argument in sys.argv[1:]:
        if argument == "--":
            break
        letters = argument[1:]
        if argument in flags or (letters and argument[0] == "-" and set(letters) == {flags[0][1]}):
            count += 1 if argument in flags else len(letters)
            sys.argv.remove(argument)
    return count


def _log(verbosity: int) -> None:
    """Show what is logged below ``autofusion`` on standard error: plans, fallbacks, kernels compiled; with -vv all."""
    if verbosity:
        import logging

        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("autofusion")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)


def _status(quiet: int) -> contextlib.AbstractContextManager[None]:
    """Show what a long command is doing, at a terminal."""
    if quiet or "_AUTOFUSION_COMPLETE" in os.environ or not sys.stderr.isatty():
        return contextlib.nullcontext()
    from autofusion.tools import status

    return status.shown(" ".join(["autofusion", *(a for a in sys.argv[1:] if not a.startswith("-"))][:3]))


def _escape_what_streams_cannot_say() -> None:
    """Characters that a console's encoding does not have, and bytes of file names that are not UTF-8, as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end_in_order() -> None:
    """Being asked to end (``kill``, ``timeout``, CI) ends child processes and removes folders, as Ctrl-C does."""

    def stop(number: int, frame: object) -> None:
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)


def main() -> None:
    """Entry point. Exit codes: 0, all is well; FINDING, what was looked at is wrong; USAGE, a wrong question or a file
    that cannot be used; FAILURE, the tool itself failed (a full disk, no memory, a fault of ours); NOTHING, ``bisect``
    found nothing that fails; 130, interrupted.
    """
    _escape_what_streams_cannot_say()
    _end_in_order()
    debug = "--debug" in sys.argv
    if debug:
        # Accepted anywhere on the line, not only before the command.
        sys.argv = [sys.argv[0], "--debug", *(a for a in sys.argv[1:] if a != "--debug")]
    _keep_to_lock()
    quiet = _taken(("-q", "--quiet"))
    _log(_taken(("-v", "--verbose")))
    apart: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if "--json" in sys.argv:
        from autofusion.cli.options import json_apart

        apart = json_apart()
    try:
        with apart, _status(quiet):
            cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except click.Abort:
        click.echo("stopped", err=True)
        sys.exit(130)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        sys.stderr.close()
        sys.exit(0)
    except AutofusionError as error:
        if debug:
            traceback.print_exc()
        click.echo(f"error: {error}", err=True)
        sys.exit(USAGE)
    except OSError as error:
        if debug or error.filename is None:
            traceback.print_exc()
        click.echo(f"error: cannot use '{error.filename}': {error.strerror}", err=True)
        sys.exit(FAILURE if error.filename is None or error.errno in _FAILURES else USAGE)
    except Exception as error:
        traceback.print_exc()
        click.echo(f"error: the command failed: {type(error).__name__}: {error}", err=True)
        sys.exit(FAILURE)
