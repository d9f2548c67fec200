"""How a tool answers: JSON on stdout, or one sentence on stderr and exit code 1."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

MARKS = "/run/stormcell/marks"
"""What a tool has to remember between the act and the undo; on a tmpfs."""

Verb = Callable[..., Any]
NOBODY = 3
"""The exit code for Nobody."""


class Nobody(LookupError):
    """There is no process of the target, and nothing was done."""


def serve(tool: str, verbs: Mapping[str, Verb], argv: list[str]) -> int:
    """Call the verb named first with the other arguments, and print what it returns.

    Exit code 2 for a call that cannot be meant, 1 for one that failed, 3 for one that found nobody.
    """
    if not argv or argv[0] not in verbs:
        return _complain(f"usage: stormcell-guest {tool} {'|'.join(verbs)} ...", 2)
    verb = verbs[argv[0]]
    shape = inspect.signature(verb)
    try:
        call = shape.bind(*argv[1:])
    except TypeError as error:
        return _complain(f"{tool} {argv[0]} takes ({', '.join(shape.parameters)}): {error}", 2)
    try:
        answer = verb(*call.args)
    except (OSError, ValueError, LookupError) as error:
        return _complain(f"{tool} {argv[0]}: {describe(error)}", NOBODY if isinstance(error, Nobody) else 1)
    if answer is not None:
        sys.stdout.write(answer if isinstance(answer, str) else json.dumps(answer) + "\n")
    sys.stdout.flush()
    return 0


def _complain(text: str, code: int) -> int:
    sys.stderr.write(f"{text}\n")
    return code


def describe(error: BaseException) -> str:
    """One sentence."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error.args[0]) if error.args else type(error).__name__


def mark_path(name: str) -> str:
    """Where the mark `name` lies."""
    return os.path.join(MARKS, name)


def put_mark(name: str, value: Any) -> None:
    """Remember; replaced in one step."""
    os.makedirs(MARKS, mode=0o700, exist_ok=True)
    path = mark_path(name)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(f"{path}.new", path)


def get_mark(name: str) -> Any:
    """What was remembered, None when nothing was."""
    try:
        with open(mark_path(name), encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def drop_mark(name: str) -> None:
    """Forget; there need not be one."""
    try:
        os.unlink(mark_path(name))
    except FileNotFoundError:
        pass


def read_text(path: str) -> str | None:
    """A small file, None when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
