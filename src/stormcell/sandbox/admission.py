"""Whether this host has room for one more sandbox. An estimate, said aloud, and no reservation."""

from __future__ import annotations

import os
from pathlib import Path

from stormcell.spec.errors import HostError, NoSpace

MIB = 1 << 20

MEMORY_OF_ONE = 96 * MIB
"""Private memory of QEMU and of the pages that an ordinary guest writes after a restore; measured at 65 to 90 MiB."""

MEMORY_KEPT = 128 * MIB
"""Left for the host itself."""

DISK_OF_ONE = 256 * MIB
"""What a guest may write to its overlay before anybody looks again."""


def admit(template_memory: int, memory_available: int, disk_free: int, folder: Path, count: int = 1) -> None:
    """All in bytes. Raises HostError or NoSpace with what is there and what `count` sandboxes are thought to need."""
    need = memory_of_one(template_memory) * count + MEMORY_KEPT
    wanted = "another sandbox" if count == 1 else f"{count} more sandboxes"
    if memory_available < need:
        raise HostError(
            f"not enough memory for {wanted}: {memory_available // MIB} MiB are available",
            rule=f"about {need // MIB} MiB are needed (MemAvailable in /proc/meminfo)",
            remedy="kill sandboxes that are not needed (`stormcell sandbox list`), or run `stormcell gc`",
        )
    if disk_free < DISK_OF_ONE * count:
        raise NoSpace(
            f"not enough room for {wanted}: {disk_free // MIB} MiB are free",
            where=str(folder),
            rule=f"at least {DISK_OF_ONE * count // MIB} MiB",
            remedy="make room there, or use a folder on a larger disk: STORMCELL_HOME, `--runs` for runs",
        )


def memory_of_one(template_memory: int) -> int:
    """Bytes that a sandbox is thought to need.

    A guest may come to use all of `template_memory`; a quarter of it is counted, since restored pages are shared
    until they are written.
    """
    return max(MEMORY_OF_ONE, template_memory // 4)


def admit_here(template_memory: int, folder: Path, count: int = 1) -> None:
    """`admit` with what this host has now."""
    admit(template_memory, memory_available(), disk_free(folder), folder, count)


def memory_available() -> int:
    """Bytes that can be had without swapping, as the kernel estimates it."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise HostError("/proc/meminfo has no MemAvailable", rule="Linux 3.14 or newer")


def disk_free(folder: Path) -> int:
    """Bytes that this user may still write there."""
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize
