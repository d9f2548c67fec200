"""A command in a guest as if it ran here: streams, signals, exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Mapping, Sequence

from stormcell.cli.output import say
from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.sandbox.results import ExecResult
from stormcell.sandbox.running import AsyncCommand

PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
PIECE = 64 * 1024
INSIST, INSIST_S = 3, 3.0
"""So many Ctrl-C within so many seconds kill the whole tree: a background child that ignores SIGINT, as a shell makes
it, may hold the outputs open for ever."""


async def pass_through(
    sandbox: str,
    argv: Sequence[str | bytes],
    *,
    cwd: str | None,
    env: Mapping[str, str],
    user: str | None,
    timeout: float,
    stdin: bool,
) -> int:
    """The exit code to end with. Raises StormcellError."""
    found = await AsyncSandbox.attach(sandbox)
    try:
        command = await found.start(argv, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin)
        return await passed(command, stdin=stdin)
    finally:
        await found.close()


async def passed(command: AsyncCommand, *, stdin: bool) -> int:
    """Of a command that was started: the exit code to end with. Raises StormcellError."""
    began = asyncio.get_running_loop().time()
    async with command:
        _pass_signals(command)
        feeding = asyncio.create_task(_feed(command)) if stdin else None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(command.stdout(), 1))
                tasks.create_task(_copy(command.stderr(), 2))
        except BaseExceptionGroup as group:
            error = group.exceptions[0]
            if isinstance(error, BrokenPipeError):
                return 128 + signal.SIGPIPE  # our reader left; the command dies with the block
            raise error from None
        finally:
            if feeding is not None:
                feeding.cancel()
        ended = await command.wait()
    took = asyncio.get_running_loop().time() - began
    result = ExecResult(ended.exit_code, ended.signal, ended.timed_out, b"", b"", took)
    if result.timed_out:
        say(f"stormcell: the command {result.ending()}")
    return result.shell_code()


def _pass_signals(command: AsyncCommand) -> None:
    """From now on these signals are for the command. Ctrl-C again and again ends what does not heed it."""
    loop = asyncio.get_running_loop()
    sending: set[asyncio.Task[object]] = set()
    presses: list[float] = []

    def send(number: int) -> None:
        if number == signal.SIGINT:
            presses[:] = [*(at for at in presses if at > loop.time() - INSIST_S), loop.time()]
        insists = len(presses) >= INSIST
        if insists:
            presses.clear()
            say("stormcell: killing the command with all its processes")
        task: asyncio.Task[object] = asyncio.ensure_future(command.kill() if insists else command.signal(number))
        sending.add(task)
        task.add_done_callback(sending.discard)

    for number in PASSED:
        loop.add_signal_handler(number, send, number)


async def _copy(chunks: AsyncIterator[bytes], fd: int) -> None:
    """In a thread: whoever reads our output may be slow, and signals and the lease must go on meanwhile."""
    async for chunk in chunks:
        await asyncio.to_thread(_write_all, fd, chunk)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


async def _feed(command: AsyncCommand) -> None:
    """Standard input, read by a thread that may be left behind: a read of a silent pipe cannot be called off."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)

    def read() -> None:
        try:
            while True:
                try:
                    piece = os.read(0, PIECE)
                except OSError:
                    piece = b""  # no standard input is an empty one
                asyncio.run_coroutine_threadsafe(pieces.put(piece), loop).result()
                if not piece:
                    return
        except (RuntimeError, asyncio.CancelledError):
            return  # the command has ended before its input

    threading.Thread(target=read, daemon=True).start()
    while piece := await pieces.get():
        if not await command.write_stdin(piece):
            return
    await command.close_stdin()
