"""A command that runs in a sandbox: its streams as they come, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Self

from stormcell.machine.commands import Command, Exit, start_command
from stormcell.sandbox.link import Link, to_the_end
from stormcell.spec.errors import OutcomeUnknown

TAIL_BYTES = 1 << 20
KILLED_S = 15.0
"""How long a killed process tree may take to be seen dead."""


class _Stream:
    """One output. Until somebody asks for it, it is read along so that the command does not stall, and its end kept."""

    def __init__(self, source: Callable[[], AsyncIterator[bytes]]) -> None:
        # a generator that was cancelled is over, what it reads from is not: so a new one for each reader
        self._source = source
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._along: asyncio.Task[None] | None = None
        self._claimed = False

    def read_along(self) -> None:
        """Begin, unless somebody reads it."""
        if not self._claimed and self._along is None:
            self._along = asyncio.create_task(self._read_along())
            # what broke the command is told by whoever asks for its end; nobody may be left to ask
            self._along.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _read_along(self) -> None:
        async for chunk in self._source():
            self._kept.append(chunk)
            self._size += len(chunk)
            while self._size > TAIL_BYTES:
                self._size -= len(self._kept.popleft())

    def claim(self) -> AsyncIterator[bytes]:
        """What was kept, then what comes."""
        self._claimed = True
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        await self.stop()
        while self._kept:
            yield self._kept.popleft()
        async for chunk in self._source():
            yield chunk

    async def end(self) -> None:
        """Wait until what is read along has ended; raises what broke it."""
        self.read_along()
        if self._along is not None and not self._claimed:
            await self._along

    async def stop(self) -> None:
        """Read along no more."""
        if self._along is not None:
            self._along.cancel()
            await asyncio.wait({self._along})


class AsyncCommand:
    """Made by `AsyncSandbox.start`. Use as a context manager, or call `wait` or `close`: until then it counts as work
    in flight and keeps the sandbox alive. Output that nobody asks for is read and its last MiB kept."""

    def __init__(self, command: Command, held: contextlib.AsyncExitStack) -> None:
        self.pid = command.pid
        self._command = command
        self._held = held
        self._stdout = _Stream(lambda: command.stdout)
        self._stderr = _Stream(lambda: command.stderr)
        self._exit: Exit | None = None
        self._why: asyncio.Future[Exception] | None = None

    @classmethod
    async def start(
        cls,
        link: Link,
        command: str | Sequence[str | bytes],
        *,
        cwd: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float = 300.0,
        stdin: bool = False,
    ) -> Self:
        """See AsyncSandbox.start."""
        async with contextlib.AsyncExitStack() as held:
            channel = await held.enter_async_context(link.use())
            shell = command if isinstance(command, str) else None
            argv = None if isinstance(command, str) else command
            started = await start_command(
                channel, argv, shell, cwd=cwd, env=env, user=user, timeout=timeout, stdin=stdin
            )
            return cls(started, held.pop_all())

    def stdout(self) -> AsyncIterator[bytes]:
        """Pieces as they come; a slow reader slows the command. Raises OutcomeUnknown."""
        return self._reading(self._stdout.claim(), self._stderr)

    def stderr(self) -> AsyncIterator[bytes]:
        """The same for standard error."""
        return self._reading(self._stderr.claim(), self._stdout)

    async def write_stdin(self, data: bytes) -> bool:
        """Returns when the guest has taken it; False when the command is over and nobody reads it."""
        return await self._command.write_stdin(data)

    async def close_stdin(self) -> None:
        """End of file."""
        await self._command.close_stdin()

    async def signal(self, number: int) -> None:
        """To the command's process group in the guest."""
        await self._command.signal(number)

    async def kill(self) -> Exit:
        """Kill the whole process tree, also what left the group; returns when it is dead. Raises OutcomeUnknown."""
        await self._command.cancel()
        try:
            async with asyncio.timeout(KILLED_S):
                return await self.wait()
        except TimeoutError:
            raise OutcomeUnknown(f"the command was to die and was not seen dead within {KILLED_S:g} s") from None

    async def wait(self) -> Exit:
        """The end: process gone and its streams at their end. Raises OutcomeUnknown."""
        if self._exit is None:
            try:
                await self._stdout.end()
                await self._stderr.end()
                self._exit = await self._command.wait()
            except Exception as error:
                raise await self._explained(error) from None
            await self._release()
        return self._exit

    async def close(self) -> None:
        """Kill what still runs of it and let go. Harmless when it is over."""
        if self._exit is None:
            await self._command.cancel()
        await self._release()

    async def _release(self) -> None:
        await self._stdout.stop()
        await self._stderr.stop()
        await to_the_end(self._held.aclose())

    async def _explained(self, error: Exception) -> Exception:
        """What to raise. Both streams and `wait` break at once: one asks what became of the guest, all tell it."""
        if self._why is None:
            self._why = asyncio.ensure_future(self._explain(error))
        return await asyncio.shield(self._why)

    async def _explain(self, error: Exception) -> Exception:
        await self._stdout.stop()
        await self._stderr.stop()
        try:
            # the link turns a bare OutcomeUnknown into one that says more
            await self._held.__aexit__(type(error), error, error.__traceback__)
        except Exception as explained:
            return explained
        return error

    async def _reading(self, chunks: AsyncIterator[bytes], other: _Stream) -> AsyncIterator[bytes]:
        other.read_along()
        try:
            async for chunk in chunks:
                yield chunk
        except Exception as error:
            raise await self._explained(error) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
