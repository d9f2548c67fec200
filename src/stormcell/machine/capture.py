"""The moment of a running machine that others go on from: devices, memory and disk, while its guest stands still."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.argv import overlay_node
from stormcell.machine.model import ProcessIdentity
from stormcell.machine.pages import Pages, Room, private_runs, region
from stormcell.machine.qmp import Monitor
from stormcell.machine.tasks import to_the_end
from stormcell.spec.errors import StormcellError

_SPARE = 4 << 20
"""Bytes that a guest may write between the look at its pages and its stop, before the copying costs more."""
_AGENT_PORT = re.compile(r"a([0-9]+)\Z")


@dataclass(frozen=True)
class Capture:
    """What was saved. `stopped_ns` is of the host's wall clock."""

    pages: Pages
    stopped_ns: int
    paused_s: float
    """How long the guest stood still; 0 when it stood still before, and does."""
    running: bool
    """Whether the guest ran before."""
    connected: tuple[int, ...]
    """Agent ports that a host process was connected to: a machine that goes on from here expects somebody there."""


async def capture(
    monitor: Monitor,
    identity: ProcessIdentity,
    disk: tuple[str, Path],
    memory: Path,
    state: Path,
    overlay: Path,
    stop: Callable[[], Awaitable[int]],
    cont: Callable[[], Awaitable[int]],
) -> Capture:
    """See `Machine.capture`; `stop` and `cont` tell when it was (ns)."""
    node = f"d{overlay.name}"[:31]  # QEMU's limit for names of nodes
    low, high = region(identity, memory)
    seen = sum(length for _, length in private_runs(identity, low, high))
    with ExitStack() as undo:
        room = Room(seen + _SPARE)
        undo.callback(room.close)
        taking = asyncio.create_task(asyncio.to_thread(room.take))
        try:
            await _let_go(monitor, node)  # of a capture that was cut off between the adding and its use
            await monitor.execute("blockdev-add", overlay_node(node, overlay) | {"backing": None})
        finally:
            await to_the_end(taking)
        running = (await monitor.execute("query-status"))["status"] == "running"
        frozen = False
        stopped = went_on = 0
        try:
            stopped = await stop() if running else time.time_ns()
            # live, it leaves the disks of a stopped guest inactive until `cont`; a second time aborts QEMU
            # (qmp_xen_save_devices_state in migration/savevm.c, bdrv_inactivate_recurse in block.c)
            await monitor.execute("xen-save-devices-state", {"filename": str(state), "live": running})
            pages = room.copy(identity, low, private_runs(identity, low, high))
            undo.callback(pages.close)
            ends = await monitor.execute("query-chardev")
            await monitor.execute("blockdev-snapshot", {"node": disk[0], "overlay": node})
            frozen = True
        finally:
            if running:
                went_on = await cont()
            if not frozen:
                await _let_go(monitor, node)
        connected = tuple(sorted(_port(end["label"]) for end in ends if _is_used(end)))
        undo.pop_all()
    return Capture(pages, stopped, max(0, went_on - stopped) / 1e9, running, connected)


async def _let_go(monitor: Monitor, node: str) -> None:
    try:
        await monitor.execute("blockdev-del", {"node-name": node})
    except StormcellError:
        pass  # QEMU is gone, or the snapshot was taken after all: then the node is in use


def _port(label: str) -> int:
    found = _AGENT_PORT.match(label)
    return int(found[1]) if found else -1


def _is_used(end: dict[str, object]) -> bool:
    """A socket that nobody is connected to has a `filename` that begins with "disconnected:"."""
    return _port(str(end["label"])) >= 0 and not str(end["filename"]).startswith("disconnected:")
