"""The one file that knows qemu.qmp: QEMU's monitor with our errors, our deadlines and our events."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from qemu.qmp import QMPClient, QMPError
from qemu.qmp.qmp_client import ExecuteError

from stormcell.machine.model import QMP_PORTS
from stormcell.machine.sockets import Slot, connect
from stormcell.spec.errors import MachineDied, MachineError

logging.getLogger("qemu.qmp").addHandler(logging.NullHandler())

ANSWER_S = 30.0
"""A monitor that says nothing for this long is taken as stuck."""


class Monitor:
    """A connection to one of a machine's monitors. Events go to `on_event` in the order of their arrival."""

    def __init__(self, client: QMPClient, slot: Slot, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._client = client
        self._slot = slot
        self._pump = asyncio.create_task(self._events(on_event))

    @classmethod
    async def open(
        cls, folder: Path, on_event: Callable[[dict[str, Any]], None], *, timeout: float = ANSWER_S
    ) -> Monitor:
        """Connect and negotiate. Raises SandboxNotFound, SandboxError (all ports taken), MachineDied, MachineError."""
        slot = Slot.take(folder, "qmp", QMP_PORTS)
        with ExitStack() as undo:
            undo.callback(slot.release)
            end = undo.enter_context(connect(slot.path))
            client = QMPClient("stormcell")
            client.logger.setLevel(logging.CRITICAL + 1)
            try:
                async with asyncio.timeout(timeout):
                    await client.connect(end)
            except TimeoutError as error:
                raise MachineError(f"the monitor did not answer in {timeout:g} s", where=str(folder)) from error
            except QMPError as error:
                raise MachineDied("QEMU ended while it was being connected to", where=str(folder)) from error
            undo.pop_all()
        return cls(client, slot, on_event)

    async def _events(self, on_event: Callable[[dict[str, Any]], None]) -> None:
        async for event in self._client.events:
            on_event(dict(event))

    async def execute(self, command: str, arguments: dict[str, Any] | None = None, *, timeout: float = ANSWER_S) -> Any:
        """What QEMU returns. Raises MachineError when it refuses or is silent, MachineDied when it is gone."""
        try:
            async with asyncio.timeout(timeout):
                return await self._client.execute(command, arguments)
        except TimeoutError as error:
            raise MachineError(f"QEMU did not answer '{command}' in {timeout:g} s") from error
        except ExecuteError as error:
            raise MachineError(f"QEMU refused '{command}': {error}") from error
        except (QMPError, OSError, EOFError) as error:
            raise MachineDied(f"QEMU ended before it answered '{command}'") from error

    async def pass_fd(self, name: str, fd: int) -> None:
        """Give QEMU a descriptor under a name: its seccomp sandbox and our folders need no path for it."""
        try:
            self._client.send_fd_scm(fd)
        except (QMPError, OSError) as error:
            raise MachineDied("QEMU ended before it took a descriptor") from error
        await self.execute("getfd", {"fdname": name})

    async def close(self) -> None:
        """Let go of the monitor. The machine runs on."""
        self._pump.cancel()
        try:
            async with asyncio.timeout(5):
                await self._client.disconnect()
        except (QMPError, OSError, EOFError, TimeoutError):
            pass  # QEMU closed its end first
        try:
            await self._pump
        except asyncio.CancelledError:
            pass
        self._slot.release()


def open_for_writing(path: Path) -> int:
    """A descriptor of a new private file."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def open_for_reading(path: Path) -> int:
    """A descriptor of a file that is there."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
