"""Finds and removes what a dead process left: sandboxes, and builds that were not finished."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.machine.durable import lock
from stormcell.machine.held import MAKING, left
from stormcell.sandbox import layers, snapshots
from stormcell.sandbox.evidence import FilesGone, KillEvidence, remove_files
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.removal import kill_process, machines_of, remove
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
    evidence: KillEvidence | None = None

    @property
    def gone(self) -> bool:
        """Whether it was seen gone, with all its processes."""
        return self.evidence is not None and self.evidence.complete

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "reason": self.reason,
            "machines": list(self.machines),
            "gone": self.gone,
            "evidence": self.evidence.as_dict() if self.evidence else None,
        }


def collect(home: Home, *, dry_run: bool = False) -> Iterator[Item]:
    """Find, remove and prove, one thing after the other. With `dry_run` only find."""
    yield from _sandboxes(home, dry_run)
    yield from _snapshots(home, dry_run)
    yield from _layers(home, dry_run)
    yield from _sealed(home, dry_run)
    yield from _builds(home, dry_run)


def _sandboxes(home: Home, dry_run: bool) -> Iterator[Item]:
    for found in look_at_all(home.sandboxes):
        decision = decide_now(found)
        if decision.remove:
            evidence = None if dry_run else _remove(found.folder, decision.reason)
            pids = tuple(machine.pid for machine in found.machines)
            reason = evidence.reason if evidence and not evidence.complete else decision.reason
            yield Item("sandbox", found.folder, reason, pids, evidence)


def _remove(folder: Path, reason: str) -> KillEvidence | None:
    """What cannot be removed is said, and does not keep the rest from going."""
    try:
        return remove(folder, reason)
    except OSError as error:
        said = f"{reason}, but {error.filename}: {error.strerror}"
        return KillEvidence(folder.name, said, (), FilesGone(str(folder), False, 0, 0))


def _snapshots(home: Home, dry_run: bool) -> Iterator[Item]:
    for folder in snapshots.unfinished(home):
        reason = "who saved or removed it died"
        evidence = None if dry_run else KillEvidence(folder.name, reason, (), remove_files(folder))
        yield Item("snapshot", folder, reason, (), evidence)


def _layers(home: Home, dry_run: bool) -> Iterator[Item]:
    """What a killed fork left; the removal of a sandbox takes its layers along."""
    for folder in layers.collect(home.state, dry_run=dry_run):
        reason = "no sandbox and no snapshot stands on it"
        seen = FilesGone(str(folder), not folder.exists(), 0, 0)
        yield Item("layer", folder, reason, (), None if dry_run else KillEvidence(folder.name, reason, (), seen))


def _sealed(home: Home, dry_run: bool) -> Iterator[Item]:
    """What a killed sealed run left: its machine's folder, or an instant that runs went on from."""
    for kind, folder in _held_folders(home):
        if not left(folder):
            continue
        machines = [ref for run in (folder, folder / "m") for ref in machines_of(run)]
        reason = "who ran it is dead"
        evidence = None if dry_run else _removed(folder, machines, reason)
        yield Item(kind, folder, reason, tuple(ref.pid for ref in machines), evidence)


def _held_folders(home: Home) -> Iterator[tuple[str, Path]]:
    for prefix, kind in (("i-", "instant"), ("m-", "sealed machine"), ("l-", "sealed machine")):
        for name in (prefix, f"{MAKING}{prefix}"):
            yield from ((kind, path) for path in sorted(home.instants.glob(f"{name}*")) if path.is_dir())
    for name in (".drive-", f"{MAKING}.drive-"):
        yield from (("drive", path) for path in sorted(home.runs.glob(f"{name}*")))
    for runs in (home.runs, home.campaigns):
        for depth in ("*", "*/*", "*/*/*"):
            for name in (".machine-", f"{MAKING}.machine-"):
                yield from (("sealed machine", path) for path in sorted(runs.glob(f"{depth}/{name}*")))


def _builds(home: Home, dry_run: bool) -> Iterator[Item]:
    """Folders to build in. While somebody builds there, the lock beside it is held."""
    for work, beside in _workplaces(home):
        with lock(beside, wait=False) as free:
            if not free:
                continue
            machines = [ref for run in (work, work / "run") for ref in machines_of(run)]
            pids = tuple(ref.pid for ref in machines)
            reason = "its builder is dead"
            evidence = None if dry_run else _removed(work, machines, reason)
            yield Item("build", work, reason, pids, evidence)


def _workplaces(home: Home) -> Iterator[tuple[Path, Path]]:
    for parent in (home.templates, home.sealed, home.rootfs):
        for work in sorted(parent.glob("*.new")) if parent.is_dir() else ():
            yield work, work.with_suffix(".lock")
    if (home.kernels / "new").is_dir():
        yield home.kernels / "new", home.kernels / "lock"


def _removed(work: Path, machines: list[ProcessRef], reason: str) -> KillEvidence:
    """Who was killed leaves the machine that it had booted, too."""
    processes = tuple(kill_process(ref) for ref in machines)
    if not all(process.gone for process in processes):
        return KillEvidence(work.name, reason, processes, FilesGone(str(work), False, 0, 0))
    sizes = [path.lstat().st_blocks * 512 for path in work.rglob("*") if not path.is_dir()]
    try:
        remove_tree(work)
    except (OSError, subprocess.SubprocessError):
        pass  # the look below tells
    return KillEvidence(work.name, reason, processes, FilesGone(str(work), not work.exists(), len(sizes), sum(sizes)))
