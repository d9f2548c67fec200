"""The real agent as a child process of the test, its ports being socket pairs instead of virtio ports."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from stormcell.machine.channel import Channel
from stormcell.machine.commands import Command, Exit, start_command


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(120):
                await test(*arguments, **named)

        asyncio.run(bounded())

    return run


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not met():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.01)


@dataclass
class AgentProcess:
    process: subprocess.Popen[bytes]
    ends: list[socket.socket]
    channels: list[Channel] = field(default_factory=list)

    async def channel(self, *, forked: bool = False) -> Channel:
        self.ends[0].setblocking(False)
        channel = await Channel.over(self.ends.pop(0), "test", forked=forked)
        self.channels.append(channel)
        return channel


@asynccontextmanager
async def running_agent(ports: int = 1) -> AsyncIterator[AgentProcess]:
    pairs = [socket.socketpair() for _ in range(ports)]
    descriptors = [theirs.fileno() for _, theirs in pairs]
    argv = [sys.executable, "-m", "stormcell.guest", "agent", *(f"--fd={fd}" for fd in descriptors)]
    process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
        argv, pass_fds=descriptors, env={**os.environ, "CANARY": "of the agent"}
    )
    for _, theirs in pairs:
        theirs.close()
    agent = AgentProcess(process, [ours for ours, _ in pairs])
    try:
        yield agent
        assert process.poll() is None, "the agent died"
    finally:
        for channel in agent.channels:
            await channel.close()
        for end in agent.ends:
            end.close()
        process.kill()
        process.wait()
        await asyncio.sleep(0)


@asynccontextmanager
async def connected() -> AsyncIterator[Channel]:
    async with running_agent() as agent:
        yield await agent.channel()


async def communicate(command: Command, stdin: bytes | None = None) -> tuple[Exit, bytes, bytes]:
    async def feed() -> None:
        if stdin is not None:
            await command.write_stdin(stdin)
            await command.close_stdin()

    async def gather(stream: AsyncIterator[bytes]) -> bytes:
        return b"".join([chunk async for chunk in stream])

    stdout, stderr, _ = await asyncio.gather(gather(command.stdout), gather(command.stderr), feed())
    return await command.wait(), stdout, stderr


async def run(
    channel: Channel, argv: list[str | bytes] | None = None, shell: str | None = None, **options: Any
) -> tuple[Exit, bytes, bytes]:
    stdin = options.pop("stdin", None)
    command = await start_command(channel, argv, shell, stdin=stdin is not None, **options)
    return await communicate(command, stdin)
