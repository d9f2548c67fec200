"""What the faults on local ports share: the ports that are taken, and who was refused one."""

from __future__ import annotations

from typing import Any

from stormcell.faults._fields import Placed
from stormcell.faults._reading import counted, mapping
from stormcell.spec.fault import Command, Fault, Reading

TRACEPOINT = "/sys/kernel/tracing/events/raw_syscalls/sys_exit/trigger"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
READ_RESERVED = Command(argv=("cat", RESERVED), name="reserved")


class TakenPorts(Placed):
    """All local ports but some are reserved."""

    @property
    def left(self) -> int:
        """How many."""
        raise NotImplementedError

    def in_force(self, before: Reading, during: Reading) -> bool:
        """What is reserved is what was, and the whole range but the last ports of it."""
        was, now = mapping(before, "ports"), mapping(during, "ports")
        bounds = now.get("range")
        if not (isinstance(bounds, list) and len(bounds) == 2 and all(isinstance(n, int) for n in bounds)):
            return False
        low, high = bounds
        taken = ports(was.get("reserved")) | set(range(low, high - self.left + 1))
        return (
            isinstance(was.get("reserved"), str)
            and was.get("counting") is False
            and now.get("counting") is True
            and high - self.left >= low
            and ports(now.get("reserved")) == taken
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Connections refused for want of a local port, of other processes than ours."""
        return sum(_refused(after, "connect EADDRNOTAVAIL").values()) + sum(_refused(after, "connect EAGAIN").values())

    def conflicts(self, other: Fault) -> str | None:
        """There is one list of reserved ports."""
        return "both reserve local ports, and there is one list of them" if isinstance(other, TakenPorts) else None

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The list is as it was, and nothing counts."""
        was, now = mapping(before, "ports"), mapping(undone, "ports")
        return (
            isinstance(was.get("reserved"), str)
            and was.get("reserved") == now.get("reserved")
            and (now.get("counting") is False)
        )

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who was refused how often, by call and errno."""
        calls = mapping(after, "ports").get("refused")
        kinds = sorted(calls) if isinstance(calls, dict) else []
        return tuple(
            f"{process}: {count} times {call}" for call in kinds for process, count in _refused(after, call).items()
        )


def ports(listed: Any) -> set[int]:
    """`80,1000-1002` as numbers. Nothing for what is no such list."""
    found: set[int] = set()
    for part in listed.split(",") if isinstance(listed, str) and len(listed) < 100_000 else ():
        low, _, high = part.strip().partition("-")
        if low.isascii() and low.isdigit() and (not high or (high.isascii() and high.isdigit())):
            found |= set(range(int(low), min(int(high or low), 65535) + 1))
    return found


def _refused(reading: Reading | None, call: str) -> dict[str, int]:
    calls = mapping(reading, "ports").get("refused")
    return counted(calls.get(call)) if isinstance(calls, dict) else {}
