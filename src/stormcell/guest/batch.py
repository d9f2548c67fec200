"""Commands of ours that follow each other, served by one child: to fork the runner costs 20 ms under emulation.

The child runs in order what single children would run, and tells after each how it ended, as a line of JSON on its
standard output. The streams of a command are texts in memory meanwhile.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stormcell.guest import spawn

Command = Mapping[str, Any]


class Answer(NamedTuple):
    """How a command ended, as it is told."""

    code: int
    out: str
    err: str
    truncated: bool
    seconds: float


def fits(command: Command, node: str | None = None) -> bool:
    """Can it share a child in `node`: a subcommand of ours, as the user and in the folder that it would have anyway?"""
    ours = command["argv"][0] in spawn.OURS and not any(command.get(key) for key in ("user", "cwd", "env"))
    return ours and command.get("node") == node


def failed(command: Command, outcome: object) -> bool:
    """An outcome that does not count as done."""
    return outcome not in command.get("accept", (0,))


def serve(commands: Sequence[Command], until_failure: bool, limit: int) -> int:
    """The child's part: all of them, or up to the first that failed. `limit` bytes of each output are told."""
    for command in commands:
        answer = _answer(command, limit)
        line = memoryview(json.dumps(answer).encode() + b"\n")
        while line:
            line = line[os.write(1, line) :]
        if until_failure and failed(command, answer.code):
            break
    return 0


def answers(told: bytes) -> list[Answer]:
    """The parent's part: those that came whole."""
    found = []
    for line in told.split(b"\n")[:-1]:
        try:
            found.append(Answer(*json.loads(line)))
        except (ValueError, TypeError):  # somebody else wrote to that pipe
            break
    return found


def _answer(command: Command, limit: int) -> Answer:
    from stormcell.guest import commands

    began = time.monotonic()
    streams = sys.stdin, sys.stdout, sys.stderr
    out, err = io.StringIO(), io.StringIO()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(command.get("stdin", "")), out, err
    try:
        code = spawn.code_of(lambda: commands.main(list(command["argv"][1:])))
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    kept = [(data[:limit].decode(errors="replace"), len(data) > limit) for data in map(_bytes, (out, err))]
    (text, cut), (said, also) = kept
    return Answer(code & 0xFF, text, said, cut or also, time.monotonic() - began)


def _bytes(stream: io.StringIO) -> bytes:
    return stream.getvalue().encode(errors="surrogateescape")
