"""How the command line speaks: results on standard output, all else on standard error."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from stormcell.spec.errors import Interrupted, StormcellError
from stormcell.spec.text import printable

F = TypeVar("F", bound=Callable[..., Any])


def json_flag(command: F) -> F:
    """The `--json` option of every command that a program may listen to."""
    return click.option("--json", "as_json", is_flag=True, help="Write one JSON document to standard output.")(command)


def emit_json(value: Any) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, indent=1, default=str))


def say(text: str) -> None:
    """A line for people, on standard error."""
    click.echo(safe(text), err=True)


safe = printable
"""Text that cannot steer a terminal (move the cursor, set the title) and that every stream can encode."""


def colour(stream: Any) -> bool:
    """Whether colour and movement belong on `stream`."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


class Group(click.Group):
    """Turns every error into one clear message and its exit code; no traceback reaches a user."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click's, but its exit code for a reader that has left is 1, which here means `failed`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _leads_nowhere()  # there is nobody to tell
            sys.exit(128 + signal.SIGPIPE)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As click's, with our errors and interrupts."""
        _open_streams()
        _stop_as_one()
        try:
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.exceptions.Abort:
            say("interrupted")
            sys.exit(130)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except Interrupted as error:
            report_error(error)
            sys.exit(error.exit_code)
        except StormcellError as error:
            report_error(error)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            say("interrupted")
            sys.exit(130)
        except OSError as error:
            _let_go_of_output()
            report_error(
                StormcellError(
                    f"{error.strerror or error}",
                    where=str(error.filename or ""),
                    remedy="check room and permissions; `stormcell doctor` looks at both",
                )
            )
            sys.exit(3)
        except Exception as error:
            if "STORMCELL_DEBUG" in os.environ:
                raise
            report_error(
                StormcellError(
                    f"a defect of stormcell: {type(error).__name__}: {error}",
                    remedy="please report it; with STORMCELL_DEBUG=1 in the environment the traceback is shown",
                )
            )
            sys.exit(4)  # whatever was under way has no outcome; python's own 1 would say `failed`


def _open_streams() -> None:
    """A standard stream that was closed (`>&-`) leads nowhere, and its number goes to no other file."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115


def _let_go_of_output() -> None:
    """A standard output that takes nothing (a full disk) leads nowhere from here on: python would try again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        _leads_nowhere()


def _leads_nowhere() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _stop_as_one() -> None:
    """SIGTERM and SIGHUP end the work as Ctrl-C does: what had been started is released.

    A shell without job control starts its background jobs with SIGINT ignored; SIGTERM must end those, too. A SIGHUP
    that is ignored (nohup) stays so.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def report_error(error: StormcellError) -> None:
    """On standard error for people; with `--json` on the command line also as JSON on standard output."""
    if "--json" in sys.argv:
        try:
            emit_json(error.as_dict())
        except OSError:
            _leads_nowhere()
    label = click.style("error:", fg="red", bold=True) if colour(sys.stderr) else "error:"
    click.echo(f"{label} {safe(str(error))}", err=True)
