"""The guest's console: read from QEMU's ring, kept in a bounded file, shown without its control characters."""

from __future__ import annotations

import base64
import fcntl
import os
from pathlib import Path

from stormcell.machine.argv import CONSOLE_BYTES
from stormcell.machine.qmp import Monitor

LOG_BYTES = 1 << 20
TAIL_BYTES = 64 * 1024


async def drain(monitor: Monitor, folder: Path, *, timeout: float = 5.0) -> None:
    """Move what the ring holds to `folder/console.log`. Raises what Monitor.execute raises."""
    answer = await monitor.execute(
        "ringbuf-read", {"device": "console", "size": CONSOLE_BYTES, "format": "base64"}, timeout=timeout
    )
    if text := base64.b64decode(answer):
        append(folder / "console.log", text)


def append(path: Path, text: bytes) -> None:
    """Add to a log that keeps its last MiB. Two processes may do so at once."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        text = text[-LOG_BYTES // 2 :]
        if size + len(text) > LOG_BYTES:
            kept = os.pread(fd, LOG_BYTES // 2, max(0, size - LOG_BYTES // 2))
            os.ftruncate(fd, 0)
            text = kept + text
        os.write(fd, text)
    finally:
        os.close(fd)


def visible(text: bytes) -> str:
    """Text that is safe in a terminal: a guest must not move the cursor or set the title of the one who reads it."""
    lines = text.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in lines)


def tail(path: Path, lines: int) -> str:
    """The last lines of a log, made visible; empty when there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - TAIL_BYTES))
            text = log.read(TAIL_BYTES)
    except OSError:
        return ""
    return "\n".join(line[:1000] for line in visible(text).rstrip().split("\n")[-lines:])
