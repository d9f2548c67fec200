"""How much memory a run of a template comes to use: measured, and remembered from one campaign to the next.

Counted are a machine's anonymous pages (RssAnon): those that its guest wrote since the restore, and QEMU's own. Pages
that it shares with the template's file can be had back by the kernel at any time.
"""

from __future__ import annotations

import json
from pathlib import Path

from stormcell.machine.durable import write_atomically
from stormcell.sandbox.admission import MEMORY_OF_ONE
from stormcell.spec.home import Home, private_folder
from stormcell.template.model import Template

KEPT = 20
"""The last peaks that are remembered; the largest of them counts."""
ROOM = 1.25
"""Asked for on top, since a peak may fall between two looks."""


def private_bytes(pid: int) -> int:
    """Anonymous memory of a process; 0 when it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def expected(template: Template, home: Home) -> int:
    """Bytes that a run is thought to use: from what was measured, else an estimate."""
    peaks = _read(home, template.digest)
    if peaks:
        return int(max(peaks) * ROOM)
    return max(MEMORY_OF_ONE, (template.shape.memory_mib << 20) // 4)


def remember(template: Template, home: Home, peak: int) -> None:
    """One more run. What cannot be kept is forgotten: it is an estimate."""
    if peak <= 0:
        return
    peaks = [*_read(home, template.digest), peak][-KEPT:]
    try:
        private_folder(home.cache / "growth")
        write_atomically(_path(home, template.digest), json.dumps(peaks))
    except OSError:
        pass


def _path(home: Home, digest: str) -> Path:
    return home.cache / "growth" / f"{digest}.json"


def _read(home: Home, digest: str) -> list[int]:
    try:
        found = json.loads(_path(home, digest).read_text())
        return [int(peak) for peak in found]
    except (OSError, ValueError, TypeError):
        return []
