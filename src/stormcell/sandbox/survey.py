"""What lies in the folder of sandboxes, and what may go: the looking apart from the deciding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from stormcell.sandbox import lease as leases
from stormcell.sandbox.hostclock import ProcessRef, boot_id, boottime_ns
from stormcell.sandbox.lease import Lease
from stormcell.sandbox.record import ID, Record, RecordTorn
from stormcell.sandbox.removal import machines_of

_MAKING = re.compile(r"\.new-(sc-[0-9a-z]{8})-([0-9]+)-([0-9]+)\Z")


def making_name(sandbox: str, maker: ProcessRef) -> str:
    """The name of a folder before its record and lease are whole; it says who makes it."""
    return f".new-{sandbox}-{maker.pid}-{maker.start_time}"


@dataclass(frozen=True)
class Found:
    """One folder as it was seen. `maker_alive` is None unless it is still under its first name."""

    folder: Path
    record: Record | None
    torn: str
    lease: Lease | None
    machines: tuple[ProcessRef, ...]
    owner_alive: bool
    maker_alive: bool | None = None


@dataclass(frozen=True)
class Decision:
    """Whether a folder goes, and why or why not."""

    remove: bool
    reason: str


def look(folder: Path) -> Found:
    """Read one folder; nothing in it is trusted to be whole."""
    record, torn = None, ""
    try:
        record = Record.read(folder)
    except RecordTorn as error:
        torn = str(error) or "unreadable"
    making = _MAKING.match(folder.name)
    owner_alive = bool(record and record.owner and record.owner.alive())
    # to look whether the lock is held is to hold it for a moment, which must not meet the machine's own start
    starting = owner_alive and record is not None and record.machine is None and record.state != "running"
    return Found(
        folder=folder,
        record=record,
        torn=torn,
        lease=leases.read(folder),
        machines=() if starting else tuple(machines_of(folder)),
        owner_alive=owner_alive,
        maker_alive=ProcessRef(int(making[2]), int(making[3]), boot_id()).alive() if making else None,
    )


def look_at_all(sandboxes: Path) -> list[Found]:
    """Every folder that is or will be a sandbox; what has another name is not ours to judge."""
    try:
        entries = sorted(sandboxes.iterdir())
    except FileNotFoundError:
        return []
    named = [entry for entry in entries if ID.match(entry.name) or _MAKING.match(entry.name)]
    return [look(entry) for entry in named if entry.is_dir() and not entry.is_symlink()]


def decide(found: Found, now_ns: int, boot: str) -> Decision:
    """What gc does with a folder. The order matters: the first rule that holds gives the reason."""
    record, lease = found.record, found.lease
    if found.maker_alive is not None:
        return Decision(not found.maker_alive, "being made" if found.maker_alive else "its maker died while making it")
    if found.torn:
        return Decision(True, "its record is torn")
    if record is None:
        return Decision(True, "it has no record")
    if lease is None:
        return Decision(True, "it has no lease")
    if lease.boot_id != boot:
        return Decision(True, "the host was booted since")
    if lease.left_seconds(now_ns, boot) <= 0:
        return Decision(True, f"its ttl of {record.ttl_seconds:g} s passed")
    if lease.claimed:
        return Decision(True, "its removal was begun and not finished")
    if record.owner and not found.owner_alive:
        return Decision(True, f"its owner, process {record.owner.pid}, is dead")
    if record.owner is None and not found.machines:
        return Decision(True, "its machine is dead")
    return Decision(False, "in use")


def decide_now(found: Found) -> Decision:
    """`decide` for this moment."""
    return decide(found, boottime_ns(), boot_id())
