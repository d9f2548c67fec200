"""What a sandbox costs the host."""

from __future__ import annotations

from pathlib import Path


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process: a page that n processes share counts as 1/n. 0 when it is gone or hidden."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
