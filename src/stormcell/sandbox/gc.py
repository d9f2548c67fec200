"""Finds and removes what a dead process left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.sandbox.evidence import FilesGone, KillEvidence
from stormcell.sandbox.removal import remove
from stormcell.sandbox.survey import decide_now, look_at_all
from stormcell.spec.home import Home


@dataclass(frozen=True)
class Item:
    """One thing that was left. `evidence` is None in a dry run, and when it came back into use meanwhile."""

    kind: str
    path: Path
    reason: str
    machines: tuple[int, ...] = ()
    evidence: KillEvidence | FilesGone | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        if isinstance(self.evidence, KillEvidence):
            evidence: dict[str, Any] | None = self.evidence.as_dict()
        else:
            evidence = vars(self.evidence) if self.evidence else None
        return {
            "kind": self.kind,
            "path": str(self.path),
            "reason": self.reason,
            "machines": list(self.machines),
            "evidence": evidence,
        }


def _sandboxes(home: Home, dry_run: bool) -> list[Item]:
    items = []
    for found in look_at_all(home.sandboxes):
        decision = decide_now(found)
        if not decision.remove:
            continue
        evidence = None if dry_run else remove(found.folder, decision.reason)
        pids = tuple(machine.pid for machine in found.machines)
        items.append(Item("sandbox", found.folder, decision.reason, pids, evidence))
    return items
