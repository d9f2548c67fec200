"""Saved moments of running sandboxes: named, whole or not there, restorable after a restart of everything.

A snapshot is a folder with the device state and the pages that differ from the memory file below, over frozen disk
overlays (layers) that it shares with the sandbox it was taken of. Its manifest has the sha256 of every byte that it
stands on but the template's, which has a manifest of its own; all are read again before a restore.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stormcell.machine.disk import writing
from stormcell.machine.durable import fsync_path, publish, write_atomically
from stormcell.machine.pages import PAGE, Pages
from stormcell.sandbox import layers
from stormcell.sandbox.forking import alone, freeze, latest, step_clock
from stormcell.sandbox.hostclock import ProcessRef, boot_id
from stormcell.sandbox.link import Link, to_the_end
from stormcell.sandbox.origin import Origin, memory_file
from stormcell.sandbox.record import Record, checked_metadata
from stormcell.spec.errors import HostError, SnapshotBroken, SnapshotNotFound, SpecError
from stormcell.spec.home import Home, private_folder
from stormcell.spec.value import nearest
from stormcell.template.store import Store

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_MAKING = re.compile(r"\.new-(.+)-([0-9]+)-([0-9]+)\Z")
_MANIFEST, _STATE, _PAGES = "manifest.json", "state", "pages"
_VERSION = 1
SANDBOX = "sandbox"
"""The kind of these; another has a `kind` in its manifest."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Snapshot:
    """A saved moment. `size` is in bytes, what its layers take included; `digest` stands for every byte of it."""

    name: str
    digest: str
    size: int
    created: float
    template: str
    template_name: str
    parent: str
    metadata: Mapping[str, str]
    open_ports: Mapping[str, int]
    memory: str
    layers: tuple[str, ...]
    since_ns: int
    connected: tuple[int, ...]
    runs: tuple[tuple[int, int], ...] = field(repr=False)
    files: Mapping[str, str] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what a person asks for."""
        names = ("name", "digest", "size", "created", "template", "template_name", "parent", "metadata", "open_ports")
        return {name: getattr(self, name) for name in names} | {"kind": SANDBOX, "layers": list(self.layers)}


def folder_of(home: Home) -> Path:
    """One folder a snapshot."""
    return home.state / "snapshots"


async def save(link: Link, record: Record, name: str, metadata: Mapping[str, str] | None) -> Snapshot:
    """Save this moment of a sandbox, which goes on with another record from here on.

    Raises SpecError for a name that is none or is taken, HostError, NoSpace, MachineError; a failure leaves nothing.
    """
    home = Home.current()
    notes = checked_metadata(metadata)
    new, final = _places(home, name)
    template = Store(home).open(record.template)
    async with link.activity.work(), layers.held(home.state), alone(link.folder):
        record = latest(record, link.folder)
        try:
            with writing("the snapshot's folder cannot be made", new):
                new.mkdir(mode=0o700)
                layer = layers.new_layer(home.state)
            memory = memory_file(record.memory, link.folder, template, home)
            frozen = await freeze(link.machine, link.folder, record, template, memory, layer)
            stepped = asyncio.create_task(step_clock(link, frozen.capture))
            (layer / "state").rename(new / _STATE)
            try:
                about = {
                    "version": _VERSION,
                    "name": name,
                    "created": time.time(),
                    "template": template.digest,
                    "template_name": template.name,
                    "parent": record.id,
                    "metadata": notes,
                    "open_ports": dict(record.open_ports),
                    "memory": frozen.record.memory,
                    "layers": list(frozen.record.layers),
                    "since_ns": frozen.capture.stopped_ns,
                    "connected": list(frozen.capture.connected),
                    "runs": [list(run) for run in frozen.capture.pages.runs],
                }
                with _alone_named(final), writing("the snapshot cannot be written", new):
                    await asyncio.to_thread(_write, home, new, final, about, frozen.capture.pages)
            finally:
                frozen.capture.pages.close()
                await stepped
        except BaseException:
            await to_the_end(asyncio.to_thread(shutil.rmtree, new, ignore_errors=True))
            raise
    return read(home, name)


def _places(home: Home, name: str) -> tuple[Path, Path]:
    """Where one is made, and where it is then. Raises SpecError for a name that is none or is taken."""
    final = folder_of(home) / checked_name(name)
    if final.exists():
        raise _name_taken(final)
    here = ProcessRef.here()
    new = private_folder(folder_of(home)) / f".new-{name}-{secrets.token_hex(4)}-{here.pid}-{here.start_time}"
    return new, final


@contextlib.contextmanager
def being_made(home: Home, name: str) -> Iterator[tuple[Path, Path]]:
    """Around the making of one of another kind: a folder that is not there yet, and the one that it is to become.

    Raises SpecError for a name that is none or is taken, also when somebody takes it meanwhile.
    """
    new, final = _places(home, name)
    with _alone_named(final):
        yield new, final


def _name_taken(final: Path) -> SpecError:
    return SpecError(
        f"there is a snapshot '{final.name}' already", where=str(final), remedy=f"stormcell snapshot rm {final.name}"
    )


@contextlib.contextmanager
def _alone_named(final: Path) -> Iterator[None]:
    """Of several that take one name at once the first has it, and the others say so."""
    try:
        yield
    except HostError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _name_taken(final) from error
        raise


def _write(home: Home, new: Path, final: Path, about: dict[str, Any], pages: Pages) -> None:
    with (new / _PAGES).open("xb") as file:
        for _, content in pages.contents():
            file.write(content)
    files = {}
    for path in _stands_on(home, new, about["memory"], about["layers"]):
        fsync_path(path)
        files[_relative(home, new, path)] = _sha256(path)
    digest = hashlib.sha256(json.dumps([about["template"], sorted(files.items())]).encode()).hexdigest()
    write_atomically(new / _MANIFEST, json.dumps(about | {"files": files, "digest": digest}, indent=1))
    publish(new, final)


def _stands_on(home: Home, folder: Path, memory: str, over: list[str]) -> list[Path]:
    """Every file but the template's."""
    found = [folder / _STATE, folder / _PAGES]
    found += [layers.folder_of(home.state) / layer / layers.DISK for layer in over]
    found += [layers.folder_of(home.state) / over[-1] / layers.SEED]
    if memory not in (layers.TEMPLATE, layers.EMPTY):
        found.append(layers.memory_of(home.state, memory))
    return found


def _relative(home: Home, folder: Path, path: Path) -> str:
    return path.name if path.parent == folder else str(path.relative_to(home.state))


def read(home: Home, name: str) -> Snapshot:
    """One by its name, as its manifest has it. Raises SnapshotNotFound, SnapshotBroken."""
    folder = folder_of(home) / checked_name(name)
    data = manifest_of(home, name)
    if (kind := kind_of(data)) != SANDBOX:
        raise SnapshotNotFound(
            f"'{name}' is a snapshot of a {kind} run, not of a sandbox",
            where=str(folder),
            remedy=f"stormcell run --from {name} --shell",
        )
    try:
        return _decode(data, name, folder)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _broken(folder, f"its manifest is torn ({error})") from error


def manifest_of(home: Home, name: str) -> Any:
    """Of one of any kind, as it is. Raises SnapshotNotFound, SnapshotBroken."""
    folder = folder_of(home) / checked_name(name)
    try:
        return json.loads((folder / _MANIFEST).read_bytes())
    except FileNotFoundError as error:
        raise SnapshotNotFound(
            f"there is no snapshot '{name}'; {nearest(name, names(home))}",
            where=str(folder.parent),
            remedy="stormcell snapshot list",
        ) from error
    except (OSError, ValueError) as error:
        raise _broken(folder, f"its manifest cannot be read ({error})") from error


def kind_of(manifest: Any) -> str:
    """`sandbox`, or what another kind calls itself."""
    return str(manifest.get("kind", SANDBOX)) if isinstance(manifest, dict) else SANDBOX


def _decode(data: Any, name: str, folder: Path) -> Snapshot:
    if data["version"] != _VERSION or data["name"] != name:
        raise ValueError("it is of another version or name")
    over = tuple(str(layer) for layer in data["layers"])
    if not over or not all(layers.ID.match(layer) for layer in over):
        raise ValueError("its layers are no layers")
    runs = tuple((int(offset), int(length)) for offset, length in data["runs"])
    if any(offset % PAGE or length % PAGE or offset < 0 or length <= 0 for offset, length in runs):
        raise ValueError("its pages are no pages")
    files = {str(key): str(value) for key, value in data["files"].items()}
    return Snapshot(
        name=name,
        digest=str(data["digest"]),
        size=sum(_taken(path) for path in _all_files(folder, over)),
        created=float(data["created"]),
        template=str(data["template"]),
        template_name=str(data["template_name"]),
        parent=str(data["parent"]),
        metadata={str(key): str(value) for key, value in data["metadata"].items()},
        open_ports={str(key): int(value) for key, value in data["open_ports"].items()},
        memory=str(data["memory"]),
        layers=over,
        since_ns=int(data["since_ns"]),
        connected=tuple(int(port) for port in data["connected"]),
        runs=runs,
        files=files,
    )


def _all_files(folder: Path, over: tuple[str, ...]) -> list[Path]:
    state = folder.parents[1]
    places = [folder, *(layers.folder_of(state) / layer for layer in over)]
    return [path for place in places if place.is_dir() for path in place.iterdir()]


def _taken(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def verify(home: Home, snapshot: Snapshot) -> None:
    """Read every byte. Raises SnapshotBroken that names the file."""
    folder = folder_of(home) / snapshot.name
    wanted = _stands_on(home, folder, snapshot.memory, list(snapshot.layers))
    if {_relative(home, folder, path) for path in wanted} != set(snapshot.files):
        raise _broken(folder, "its manifest does not name the files that it stands on")
    for path in wanted:
        try:
            same = _sha256(path) == snapshot.files[_relative(home, folder, path)]
        except OSError as error:
            raise _broken(path, f"it cannot be read ({error.strerror})") from error
        if not same:
            raise _broken(path, "its bytes are not those that were saved")
    if sum(length for _, length in snapshot.runs) != (folder / _PAGES).stat().st_size:
        raise _broken(folder, "its list of pages does not fit its pages")


def origin_of(home: Home, snapshot: Snapshot) -> Origin:
    """What a sandbox goes on from; its pages are to be closed. Raises TemplateError, SnapshotBroken."""
    folder = folder_of(home) / snapshot.name
    template = Store(home).open(snapshot.template)
    verify(home, snapshot)
    return Origin(
        template,
        state=folder / _STATE,
        overlay=layers.folder_of(home.state) / snapshot.layers[-1] / layers.SEED,
        since_ns=snapshot.since_ns,
        memory=snapshot.memory,
        layers=snapshot.layers,
        pages=Pages.of_file(snapshot.runs, folder / _PAGES),
        connected=snapshot.connected,
        forked=True,
        parent=snapshot.parent,
        snapshot=snapshot.name,
    )


def names(home: Home) -> list[str]:
    """All that have a name, in order."""
    folder = folder_of(home)
    return sorted(path.name for path in folder.iterdir() if NAME.match(path.name)) if folder.is_dir() else []


def of_template(home: Home, digest: str) -> list[str]:
    """The names of those that stand on a template. One that cannot be read stands on none."""
    found = []
    for name in names(home):
        try:
            if read(home, name).template == digest:
                found.append(name)
        except (SnapshotBroken, SnapshotNotFound):
            continue
    return found


def remove(home: Home, name: str) -> Path:
    """Remove one, and the layers that nobody else stands on. Raises SnapshotNotFound."""
    folder = folder_of(home) / checked_name(name)
    if not folder.is_dir():
        raise SnapshotNotFound(f"there is no snapshot '{name}'; {nearest(name, names(home))}", where=str(folder.parent))
    here = ProcessRef.here()
    gone = folder.with_name(f".new-{name}-{secrets.token_hex(4)}-{here.pid}-{here.start_time}")
    folder.rename(gone)
    shutil.rmtree(gone)
    layers.collect(home.state)
    return folder


def unfinished(home: Home) -> list[Path]:
    """What a process left that died while it saved or removed one."""
    folder = folder_of(home)
    if not folder.is_dir():
        return []
    found = [(path, _MAKING.match(path.name)) for path in folder.iterdir()]
    return [path for path, made in found if made and not ProcessRef(int(made[2]), int(made[3]), boot_id()).alive()]


def checked_name(name: str) -> str:
    """Raises SpecError."""
    if not isinstance(name, str) or not NAME.match(name):
        raise SpecError(
            f"'{name}' cannot name a snapshot", rule="a-z 0-9 first, then also . _ -, at most 63 characters"
        )
    return name


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _broken(path: Path, why: str) -> SnapshotBroken:
    return SnapshotBroken(f"the snapshot is damaged: {why}", where=str(path), remedy="remove it and take it again")
