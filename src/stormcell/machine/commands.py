"""Run commands in the guest."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stormcell.guest.exec import LONGEST
from stormcell.guest.wire import Kind, WireError
from stormcell.machine.channel import Channel
from stormcell.machine.exchange import Exchange, error_text
from stormcell.spec.errors import SandboxError

MARGIN = 30.0
"""Seconds after a command's own timeout in which the guest must have killed it and said so."""


class CommandNotStarted(SandboxError):
    """The command never ran: `stage` (user, cwd, program, cgroup, fork, request) says why, `errno` may be 0."""

    def __init__(self, what: str, *, stage: str, errno: int, remedy: str = "") -> None:
        super().__init__(what, remedy=remedy)
        self.stage = stage
        self.errno = errno


@dataclass(frozen=True)
class Exit:
    """How a command ended: one of `exit_code` and `signal` is set, or none when it could not even be killed.

    `left` counts the processes of its tree that outlived the kill (uninterruptible sleep).
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool = False
    left: int = 0


class Command:
    """A command that has started. Read both streams, or it stops when a window of output is unread."""

    def __init__(self, channel: Channel, exchange: Exchange, pid: int) -> None:
        self.pid = pid
        self._channel = channel
        self._exchange = exchange

    @property
    def stdout(self) -> AsyncIterator[bytes]:
        """Pieces as they come. Raises OutcomeUnknown when the channel breaks."""
        return self._exchange.chunks(Kind.OUTPUT)

    @property
    def stderr(self) -> AsyncIterator[bytes]:
        """The same for standard error."""
        return self._exchange.chunks(Kind.ERRORS)

    async def write_stdin(self, data: bytes | bytearray | memoryview) -> bool:
        """Returns when the guest has room for it; False when the command is over and nobody reads it."""
        return await self._exchange.write(data)

    async def close_stdin(self) -> None:
        """End of file."""
        self._exchange.end_input()

    async def signal(self, number: int) -> None:
        """To the command's process group."""
        self._exchange.signal(number)

    async def cancel(self) -> None:
        """Kill the whole tree now and forget unread output. `wait` tells how it ended."""
        self._exchange.cancel()

    async def wait(self) -> Exit:
        """The end: process gone and both streams at their end. Does not read them. Raises OutcomeUnknown."""
        answer = await self._exchange.final()
        if "error" in answer:
            raise not_started(answer)
        return self._channel.checked(lambda: _exit(answer))


async def start_command(
    channel: Channel,
    argv: Sequence[str | bytes] | None,
    shell: str | None = None,
    *,
    cwd: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    timeout: float = 300.0,
    stdin: bool = False,
) -> Command:
    """Start `argv`, or `shell` text with /bin/sh. Returns when the program runs.

    `env` is added to the guest's default one. `user` is name, uid, name:group or uid:gid. At `timeout` (seconds on the
    guest's monotonic clock) the whole tree is killed. Raises CommandNotStarted, OutcomeUnknown.
    """
    if (argv is None) == (shell is None):
        raise SandboxError("a command is either a list of arguments or shell text")
    if not 0 < timeout <= LONGEST:
        raise SandboxError(f"a command's timeout is above 0 and at most {LONGEST} s, not {timeout}")
    message: dict[str, Any] = {"op": "exec", "timeout_s": timeout, "stdin": stdin}
    if argv is not None:
        message["argv"] = [path_text(part) for part in argv]
    else:
        message["shell"] = shell
    message |= {"cwd": path_text(cwd) if cwd else None, "env": dict(env or {}), "user": user}
    if "\0" in repr_values(message):
        raise SandboxError("a command, its environment and its folder hold no NUL character")
    exchange = await channel.open(message, deadline=time.monotonic() + timeout + MARGIN)
    started = await exchange.started()
    if started is None:
        answer = await exchange.final()
        if "error" in answer:
            raise not_started(answer)
    return Command(channel, exchange, channel.checked(lambda: _pid(started)))


def path_text(path: str | bytes) -> str:
    """Bytes that are no UTF-8 become lone surrogates, as os.fsdecode does in the guest."""
    return path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path


def repr_values(message: Mapping[str, Any]) -> str:
    """All texts of a request, joined."""
    texts = [*(message.get("argv") or []), message.get("shell"), message.get("cwd"), message.get("user")]
    texts += [text for pair in message["env"].items() for text in pair]
    return " ".join(text for text in texts if text)


def not_started(answer: Mapping[str, Any]) -> SandboxError:
    """The guest's refusal as an error."""
    error = answer.get("error")
    parts = error if isinstance(error, dict) else {}
    stage, errno = parts.get("stage", "request"), parts.get("errno", 0)
    said = {
        "program": "the program cannot be run",
        "user": "there is no such user or group in the guest",
        "cwd": "the working folder cannot be used",
        "cgroup": "the guest could not make a cgroup for it",
        "fork": "the guest has no room for another process",
    }.get(str(stage), "the guest refused the command")
    return CommandNotStarted(
        f"{said}: {error_text(answer)}", stage=str(stage)[:20], errno=errno if isinstance(errno, int) else 0
    )


def _pid(started: Mapping[str, Any] | None) -> int:
    pid = started.get("pid") if started is not None else 0
    if not isinstance(pid, int) or isinstance(pid, bool):
        raise WireError("a command without a pid")
    return pid


def _exit(answer: Mapping[str, Any]) -> Exit:
    code, signal, left = answer.get("exit_code"), answer.get("signal"), answer.get("left", 0)
    timed_out, cancelled = answer.get("timed_out"), answer.get("cancelled", False)
    whole = isinstance(code, int | None) and isinstance(signal, int | None) and isinstance(left, int)
    if not whole or not isinstance(timed_out, bool) or not isinstance(cancelled, bool):
        raise WireError("an exit with wrong types")
    if (code is not None and not 0 <= code <= 255) or (signal is not None and not 1 <= signal <= 64):
        raise WireError("an exit that no process has")
    if (code is not None) == (signal is not None) and not (code is None and (timed_out or cancelled)):
        raise WireError("an exit with neither or both of exit code and signal")
    return Exit(code, signal, timed_out, cancelled, left)
