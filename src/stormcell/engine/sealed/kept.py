"""A moment of a sealed run, kept under a name: memory, devices and all that a run needs that goes on from it.

memory, state            of the machine
vmlinuz, initrd.cpio     what it boots from, should it crash
spec.json, plan.json, recipe.json, sealed.json
                         of the recorded run
manifest.json            where it stands, how it came there, and a digest of every file
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.bundle import Drive, Sealed
from stormcell.engine.sealed.conduct import HandOver, Start
from stormcell.engine.sealed.stopped import Stopped
from stormcell.machine.disk import writing
from stormcell.machine.durable import publish, write_atomically
from stormcell.machine.sealed import memory
from stormcell.machine.sealed.argv import SealedSpec
from stormcell.machine.sealed.layout import Layout
from stormcell.sandbox import snapshots
from stormcell.sandbox.link import to_the_end
from stormcell.spec.errors import SnapshotBroken, SnapshotNotFound
from stormcell.spec.home import Home
from stormcell.template.manifest import sha256

KIND = "sealed"
_MANIFEST, _MEMORY, _STATE, _KERNEL, _INITRD = "manifest.json", "memory", "state", "vmlinuz", "initrd.cpio"
_RUN = ("spec.json", "plan.json", bundle.RECIPE, bundle.SEALED)
_FILES = (_STATE, _KERNEL, _INITRD, *_RUN)
_VERSION = 1


@dataclass(frozen=True)
class Kept:
    """One of them. `size` is what it takes on the disk (bytes)."""

    name: str
    folder: Path
    size: int
    about: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what a person asks for."""
        names = ("name", "kind", "digest", "created", "experiment", "run", "stopped", "memory_sha256")
        return {name: self.about[name] for name in names} | {"size": self.size}


async def save(stopped: Stopped, name: str, home: Home | None = None) -> Kept:
    """Keep this moment. Raises SpecError for a name that is none or is taken, NoSpace, HostError; or leaves nothing."""
    home = home or Home.current()
    with snapshots.being_made(home, name) as (new, final):
        try:
            await to_the_end(asyncio.to_thread(_write, stopped, name, new))
            with writing("the snapshot cannot be written", new):
                await asyncio.to_thread(publish, new, final)
        except BaseException:
            await to_the_end(asyncio.to_thread(shutil.rmtree, new, ignore_errors=True))
            raise
    return read(home, name)


def _write(stopped: Stopped, name: str, new: Path) -> None:
    start = stopped.start()
    spec = start.spec
    with writing("the snapshot cannot be written", new):
        new.mkdir(mode=0o700)
        memory.copy(spec.memory, new / _MEMORY)
        for source, target in ((start.state, _STATE), (spec.kernel, _KERNEL), (spec.initrd, _INITRD)):
            shutil.copyfile(source, new / target)
        for file in _RUN:
            shutil.copyfile(stopped.folder / file, new / file)
        files = {file: sha256(new / file) for file in _FILES}
        about = {
            "version": _VERSION,
            "kind": KIND,
            "name": name,
            "created": time.time(),
            "experiment": stopped.experiment,
            "run": str(stopped.folder),
            "stopped": stopped.as_dict()["stopped"],
            "layout": {"memory": spec.layout.memory, "disk_size": spec.layout.disk_size},
            "epoch": spec.epoch,
            "drive": stopped.drive.model_dump(mode="json"),
            "about": stopped.about.model_dump(mode="json"),
            "memory_sha256": memory.digest(new / _MEMORY),
            "files": files,
        }
        about["digest"] = _digest(about)
        write_atomically(new / _MANIFEST, json.dumps(about, indent=1))


def _digest(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([about["memory_sha256"], sorted(about["files"].items())]).encode()).hexdigest()


def read(home: Home, name: str) -> Kept:
    """One by its name, as its manifest has it. Raises SnapshotNotFound, SnapshotBroken."""
    folder = snapshots.folder_of(home) / snapshots.checked_name(name)
    about = snapshots.manifest_of(home, name)
    if about.get("kind") != KIND:
        raise SnapshotNotFound(
            f"'{name}' is a snapshot of a sandbox, not of a sealed run",
            where=str(folder),
            remedy=f"stormcell sandbox create --snapshot {name}",
        )
    try:
        if about["version"] != _VERSION:
            raise ValueError("it is of another version")
        kept = Kept(name, folder, sum(path.stat().st_blocks * 512 for path in folder.iterdir()), about)
        kept.as_dict()
        _stopped(kept)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise SnapshotBroken(f"the snapshot is damaged: its manifest is torn ({error})", where=str(folder)) from error
    return kept


def verify(kept: Kept) -> None:
    """Read every byte. Raises SnapshotBroken that names the file."""
    wanted = {**kept.about["files"], _MEMORY: kept.about["memory_sha256"]}
    for name in (*_FILES, _MEMORY):
        path = kept.folder / name
        try:
            found = memory.digest(path) if name == _MEMORY else sha256(path)
        except OSError as error:
            raise SnapshotBroken(f"the snapshot is damaged: {error.strerror}", where=str(path)) from error
        if found != wanted.get(name):
            raise SnapshotBroken(
                "the snapshot is damaged: its bytes are not those that were saved",
                where=str(path),
                remedy=f"stormcell snapshot rm {kept.name}, and take it again",
            )


def opened(home: Home, name: str) -> Stopped:
    """The moment, to go on from. Raises as `read` and `verify` do."""
    kept = read(home, name)
    verify(kept)
    return _stopped(kept)


def _stopped(kept: Kept) -> Stopped:
    about, folder, stopped = kept.about, kept.folder, kept.about["stopped"]
    layout = Layout(int(about["layout"]["memory"]), int(about["layout"]["disk_size"]))

    def start(*, hand_over: HandOver | None = None, **changes: Any) -> Start:
        fields = {"memory": folder / _MEMORY, "epoch": int(about["epoch"]), **changes}
        spec = SealedSpec("sealed", layout, folder / _KERNEL, folder / _INITRD, **fields)
        return Start(spec, folder / _STATE, under_way=True, hand_over=hand_over)

    return Stopped(
        folder=folder,
        experiment=str(about["experiment"]),
        event=int(stopped["event"]),
        events=int(stopped["events"]),
        last=dict(stopped["last"]),
        moment=float(stopped["seconds"]),
        difference=None,
        drive=Drive.model_validate(about["drive"]),
        about=Sealed.model_validate(about["about"]),
        start=start,
        digest=lambda: str(about["memory_sha256"]),
    )
