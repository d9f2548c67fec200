"""Finds and removes what a dead process left: sandboxes, and builds that were not finished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stormcell.machine.durable import lock
from stormcell.sandbox.evidence import FilesGone, KillEvidence
from stormcell.sandbox.removal import remove
from stormcell.sandbox.survey import decide_now, look_at_all
from stormcell.spec.home import Home
from stormcell.template.namespace import remove_tree


@dataclass(frozen=True)
class Item:
    """One thing that was left. `evidence` is None in a dry run."""

    kind: str
    path: Path
    reason: str
    machines: tuple[int, ...] = ()
    evidence: KillEvidence | FilesGone | None = None

    @property
    def gone(self) -> bool:
        """Whether it was seen gone, with all its processes."""
        if isinstance(self.evidence, KillEvidence):
            return self.evidence.complete
        return self.evidence is not None and self.evidence.gone

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        evidence = self.evidence.as_dict() if isinstance(self.evidence, KillEvidence) else None
        if isinstance(self.evidence, FilesGone):
            evidence = asdict(self.evidence)
        return {
            "kind": self.kind,
            "path": str(self.path),
            "reason": self.reason,
            "machines": list(self.machines),
            "gone": self.gone,
            "evidence": evidence,
        }


def collect(home: Home, *, dry_run: bool = False) -> Iterator[Item]:
    """Find, remove and prove, one thing after the other. With `dry_run` only find."""
    yield from _sandboxes(home, dry_run)
    yield from _builds(home, dry_run)


def _sandboxes(home: Home, dry_run: bool) -> Iterator[Item]:
    for found in look_at_all(home.sandboxes):
        decision = decide_now(found)
        if decision.remove:
            evidence = None if dry_run else remove(found.folder, decision.reason)
            pids = tuple(machine.pid for machine in found.machines)
            yield Item("sandbox", found.folder, decision.reason, pids, evidence)


def _builds(home: Home, dry_run: bool) -> Iterator[Item]:
    """`<digest>.new` is being built while somebody holds `<digest>.lock`."""
    reason = "its builder is dead"
    for parent in (home.templates, home.rootfs, home.kernels):
        for work in sorted(parent.glob("*.new")) if parent.is_dir() else ():
            with lock(work.with_suffix(".lock"), wait=False) as free:
                if not free:
                    continue
                yield Item("build", work, reason, evidence=None if dry_run else _removed(work))


def _removed(work: Path) -> FilesGone:
    sizes = [path.lstat().st_blocks * 512 for path in work.rglob("*") if not path.is_dir()]
    try:
        remove_tree(work)
    except OSError:
        pass  # seen below
    return FilesGone(str(work), not work.exists(), len(sizes), sum(sizes))
