"""What a sandbox costs the host."""

from __future__ import annotations

from pathlib import Path


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process: a page that n processes share counts as 1/n. 0 when it is gone or hidden."""
    return _sum_of(pid, "Pss:")


def private_bytes(pid: int) -> int:
    """Pages that the process wrote to and shares with nobody: what one more of its kind costs. 0 as above."""
    return _sum_of(pid, "Private_Dirty:")


def _sum_of(pid: int, field: str) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
