"""A shell in a guest on this terminal: every key is the guest's, Ctrl-C too."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from stormcell.guest.exec import LONGEST
from stormcell.guest.terminal import resized, typed
from stormcell.machine.channel import Channel
from stormcell.machine.commands import Command, start_command

LEAVES = b"\x1d"
"""Ctrl-]: leaves also a guest that does not answer."""
SHELL = "command -v bash >/dev/null && exec bash --norc -i || exec sh -i"
_PIECE = 65536
PASSED_ON = ("TERM", "LANG", "COLORTERM")


def is_terminal() -> bool:
    """Whether somebody sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def shell(channel: Channel, prompt: str) -> int:
    """Until it ends, or Ctrl-]. The shell's exit code."""
    columns, rows = os.get_terminal_size(0)
    argv = ["stormcell-guest", "terminal", str(rows), str(columns), "/bin/sh", "-c", SHELL]
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env |= {"PS1": f"{prompt}:\\w# ", "HOME": "/root"}
    command = await start_command(channel, argv, env=env, cwd="/root", timeout=LONGEST, stdin=True)
    with _raw():
        return await _until_it_ends(command)


async def _until_it_ends(command: Command) -> int:
    keys: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, lambda: keys.put_nowait(os.read(0, _PIECE)))
    loop.add_signal_handler(signal.SIGWINCH, lambda: keys.put_nowait(b""))
    typing = asyncio.create_task(_typed(command, keys))
    showing = [asyncio.create_task(_show(command, fd)) for fd in (1, 2)]
    ending = asyncio.create_task(command.wait())
    try:
        await asyncio.wait({typing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            typing.result()
            await command.cancel()
            return 0
        await asyncio.gather(*showing)
        code = ending.result().exit_code
        return 128 + (ending.result().signal or 0) if code is None else code
    finally:
        loop.remove_reader(0)
        loop.remove_signal_handler(signal.SIGWINCH)
        for task in (typing, ending, *showing):
            task.cancel()


async def _typed(command: Command, keys: asyncio.Queue[bytes]) -> None:
    """Returns at Ctrl-], and when the terminal is gone."""
    while True:
        data = await keys.get()
        if not data:
            columns, rows = os.get_terminal_size(0)
            await command.write_stdin(resized(rows, columns))
        elif LEAVES in data:
            return
        else:
            await command.write_stdin(typed(data))


async def _show(command: Command, fd: int) -> None:
    async for data in command.stdout if fd == 1 else command.stderr:
        await asyncio.to_thread(_write_all, fd, data)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


@contextmanager
def _raw() -> Iterator[None]:
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
