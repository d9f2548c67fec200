"""Run a command to its end, with its input fed and its output collected or handed on."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

from stormcell.sandbox.link import Link, to_the_end
from stormcell.sandbox.results import CommandFailed, ExecResult
from stormcell.sandbox.running import AsyncCommand
from stormcell.spec.errors import OutputLimit, StormcellError

Stdin = bytes | Iterable[bytes] | AsyncIterable[bytes] | None
OnOutput = Callable[[bytes], object]
"""Gets each piece; what it returns is awaited when it can be."""

MAX_CAPTURED = 256 << 20
"""Bytes of stdout and stderr together that are held in memory unless the caller says otherwise."""


async def execute(
    link: Link,
    command: str | Sequence[str | bytes],
    *,
    cwd: str | bytes | None,
    env: Mapping[str, str] | None,
    stdin: Stdin,
    user: str | None,
    timeout: float,
    on_stdout: OnOutput | None,
    on_stderr: OnOutput | None,
    capture: bool,
    max_output: int | None,
    check: bool,
) -> ExecResult:
    """See AsyncSandbox.exec."""
    begun = time.monotonic()
    limit = max_output if max_output is not None or not capture else MAX_CAPTURED
    running = await AsyncCommand.start(
        link, command, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin is not None
    )
    collector = _Collector(limit, capture)
    tasks = [
        asyncio.create_task(collector.read(running.stdout(), collector.stdout, on_stdout)),
        asyncio.create_task(collector.read(running.stderr(), collector.stderr, on_stderr)),
    ]
    feeding = asyncio.create_task(_feed(running, stdin))
    try:
        await _all_or_first_error([*tasks, feeding], until=tasks)
        ended = await running.wait()
    except OutputLimit:
        await _kill(running)
        raise
    finally:
        await to_the_end(_end([*tasks, feeding], running))
    result = ExecResult(
        ended.exit_code,
        ended.signal,
        ended.timed_out,
        bytes(collector.stdout),
        bytes(collector.stderr),
        time.monotonic() - begun,
    )
    if check and not result.ok:
        raise CommandFailed(result, where=link.folder.name)
    return result


class _Collector:
    """Takes both outputs in, within one limit."""

    def __init__(self, limit: int | None, keep: bool) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._limit = limit
        self._keep = keep
        self._seen = 0

    async def read(self, chunks: AsyncIterator[bytes], into: bytearray, handler: OnOutput | None) -> None:
        async for chunk in chunks:
            self._seen += len(chunk)
            if self._limit is not None and self._seen > self._limit:
                raise OutputLimit(
                    f"the command wrote more than {self._limit} bytes; its process tree was killed",
                    rule="max_output counts stdout and stderr together",
                    remedy="raise max_output, or take the output with on_stdout and capture=False",
                )
            if self._keep:
                into += chunk
            if handler is not None:
                given = handler(chunk)
                if inspect.isawaitable(given):
                    await given


async def _feed(running: AsyncCommand, stdin: Stdin) -> None:
    if stdin is None:
        return
    async for piece in pieces(stdin):
        if not await running.write_stdin(piece):
            return  # the command is over; what it did not read it did not want
    await running.close_stdin()


async def pieces(source: bytes | Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The bytes of `source`. A plain iterator is advanced in a thread, since it may block."""
    if isinstance(source, bytes | bytearray | memoryview):
        yield bytes(source)
    elif isinstance(source, AsyncIterable):
        async for piece in source:
            yield piece
    else:
        iterator = iter(source)
        while (given := await asyncio.to_thread(_next, iterator)) is not None:
            yield given


def _next(iterator: Iterator[bytes]) -> bytes | None:
    return next(iterator, None)


async def _all_or_first_error(tasks: Sequence[asyncio.Task[None]], *, until: Sequence[asyncio.Task[None]]) -> None:
    """Return when all of `until` are done; raise the first error of any of `tasks`."""
    pending: set[asyncio.Task[None]] = set(tasks)
    while not all(task.done() for task in until):
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _kill(running: AsyncCommand) -> None:
    try:
        await running.kill()
    except StormcellError:
        pass  # the limit is the error to tell of; the guest kills the tree when the channel closes, too


async def _end(tasks: Sequence[asyncio.Task[None]], running: AsyncCommand) -> None:
    """Leave nothing running, here or in the guest."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # told already, or overtaken by the one that was
    await running.close()
