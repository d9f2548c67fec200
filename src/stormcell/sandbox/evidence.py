"""What was seen when a sandbox went: never what was meant to happen."""

from __future__ import annotations

import shutil
import stat
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ProcessGone:
    """The end of one process. `exit_status` is None when it was not our child: only a parent is told."""

    pid: int
    start_time: int
    gone: bool
    exit_status: int | None
    how: str
    waited_s: float


@dataclass(frozen=True)
class FilesGone:
    """A folder that was removed: how many files it had, the bytes they took on the disk, and whether it is gone."""

    path: str
    gone: bool
    files: int
    bytes: int


@dataclass(frozen=True)
class KillEvidence:
    """The end of one sandbox. `already_gone`: it was gone before this call, which therefore did nothing."""

    id: str
    reason: str
    processes: tuple[ProcessGone, ...]
    files: FilesGone
    already_gone: bool = False
    at: float = field(default_factory=time.time)

    @property
    def complete(self) -> bool:
        """Every process seen dead, every file seen gone."""
        return self.files.gone and all(process.gone for process in self.processes)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"complete": self.complete}

    def sentence(self) -> str:
        """One line for a person."""
        if self.already_gone:
            return f"{self.id}: already gone; {self.files.path} does not exist"
        parts = [f"process {p.pid} {'gone' if p.gone else 'STILL THERE'} ({p.how})" for p in self.processes]
        parts = parts or ["it had no process"]
        state = "gone" if self.files.gone else "STILL THERE"
        parts.append(f"{self.files.path} {state} ({self.files.files} files, {self.files.bytes >> 10} KiB)")
        return f"{self.id}: {self.reason}: " + ", ".join(parts)


def already_gone(name: str, folder: Path) -> KillEvidence:
    """For the second kill of a sandbox."""
    return KillEvidence(name, "already gone", (), FilesGone(str(folder), not folder.exists(), 0, 0), already_gone=True)


def remove_files(folder: Path) -> FilesGone:
    """Remove a folder and look whether it is gone; a failure is `gone=False`. Links in it are never followed."""
    files = size = 0
    for path in folder.rglob("*"):
        try:
            info = path.lstat()
        except OSError:
            continue
        if not stat.S_ISDIR(info.st_mode):
            files += 1
            size += info.st_blocks * 512
    # a socket or lock may be made by a late client between the listing and the removal of the folder
    for _ in range(5):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(0.01)
    return FilesGone(str(folder), not folder.exists(), files, size)
