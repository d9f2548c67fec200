"""A program of a build: heard line by line, ended with its whole group, deaf to most of our environment."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stormcell.machine.host import tool

LIMIT_S = 1800.0
GUARD = """exec 3<&0; trap 'trap "" TERM; kill -TERM 0; wait' TERM; "$@" <&3 3<&- & wait "$!" """
"""Leads the group. mmdebstrap waits for its children before it heeds a signal, so all of them must get it."""
PASSED = frozenset({"APT_CONFIG", "HOME", "PATH", "TMPDIR"})
"""Of our environment, beside the proxies. A time zone or a language would get into what is built."""


def environment() -> dict[str, str]:
    """What a program of a build sees of our environment."""
    proxies = {name for name in os.environ if name.lower().endswith("_proxy")}
    return {name: os.environ[name] for name in proxies | PASSED if name in os.environ} | {"LC_ALL": "C.UTF-8"}


async def run(
    argv: Sequence[str | Path],
    line: Callable[[str], None],
    *,
    stdin: bytes = b"",
    stdout: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a program in a process group of its own; its status and the last lines of its standard error.

    It sees `environment()` and `variables`.
    When we are cancelled, or after LIMIT_S, the group gets SIGTERM (mmdebstrap then removes its tree), later SIGKILL.
    When we are killed, the kernel tells the guard, and the guard does the same.
    """
    argv = [
        str(tool("setpriv", "util-linux")),
        "--pdeathsig",
        "TERM",
        "--",
        "/bin/sh",
        "-c",
        GUARD,
        "guard",
        *map(str, argv),
    ]
    words: list[str] = []

    def hear(text: str) -> None:
        line(text)
        words[:] = [*words[-39:], text[:500]]

    # a file, not a pipe: a program whose reader was killed would die of its next word, before it has cleaned up
    with tempfile.TemporaryFile() as said:
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=null if stdout is None else stdout,
            stderr=said,
            env={**environment(), **(variables or {})},
            start_new_session=True,
        )
        assert process.stdin is not None
        ended = asyncio.ensure_future(process.wait())
        follow = _Follower(said.fileno(), hear)
        try:
            async with asyncio.timeout(LIMIT_S):
                process.stdin.write(stdin)
                process.stdin.close()
                while not ended.done():
                    await asyncio.wait({ended}, timeout=0.1)
                    follow.read()
                follow.end()
                return await ended, "\n".join(words)
        except TimeoutError:
            return -1, "\n".join([*words, f"it did not end within {LIMIT_S:g} s"])
        finally:
            if process.returncode is None:
                await _end_group(process)


class _Follower:
    """Reads a file that another process appends to, line by line."""

    def __init__(self, fd: int, hear: Callable[[str], None]) -> None:
        self._fd = fd
        self._hear = hear
        self._at = 0
        self._rest = b""

    def read(self) -> None:
        """Tell the whole lines that came since."""
        while piece := os.pread(self._fd, 1 << 16, self._at):
            self._at += len(piece)
            *lines, self._rest = (self._rest + piece).split(b"\n")
            for raw in lines:
                self._hear(raw.decode(errors="replace").rstrip())

    def end(self) -> None:
        """And the last one, if it was cut short."""
        self.read()
        if self._rest:
            self._hear(self._rest.decode(errors="replace"))


async def _end_group(process: asyncio.subprocess.Process) -> None:
    for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)  # its leader is not reaped yet, so the group is still its own
            async with asyncio.timeout(patience):
                await process.wait()
            return
        except (ProcessLookupError, TimeoutError):
            continue
