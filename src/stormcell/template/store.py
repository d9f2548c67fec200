"""The templates of a home: found by name, listed, verified, removed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from stormcell.machine.durable import lock, write_atomically
from stormcell.machine.host import find_qemu
from stormcell.machine.model import Shape
from stormcell.spec.errors import TemplateBroken, TemplateError, TemplateNotFound
from stormcell.spec.home import Home, private_folder
from stormcell.spec.recipe import Recipe, load_recipe
from stormcell.spec.value import nearest
from stormcell.template.manifest import NAME, read_manifest, verify_files
from stormcell.template.model import Template


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = Path(str(resources.files("stormcell.template"))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find(name_or_path: str, home: Home) -> Recipe:
    """A recipe by its file's path, by the name of a shipped one, or by the name of a template built before.

    Raises TemplateNotFound, SpecError.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        if not path.is_file():
            raise TemplateNotFound("there is no such recipe file", where=name_or_path)
        return load_recipe(path)
    if name_or_path in shipped():
        return load_recipe(shipped()[name_or_path])
    store = Store(home)
    digest = store.digest_of(name_or_path)
    source = Path(str(read_manifest(home.templates / digest).get("source", "")))
    if not source.is_file():
        raise TemplateNotFound(
            f"the recipe of the template '{name_or_path}' is gone", where=str(source), remedy="name the recipe's file"
        )
    return load_recipe(source)


@dataclass(frozen=True)
class Entry:
    """A line of `template list`. `state` is `ready`, `stale` (made by another QEMU) or `broken`, with the reason."""

    name: str
    digest: str
    state: str
    reason: str
    bytes_on_disk: int
    memory_mib: int
    accel: str
    built: str
    sealed: bool = False
    snapshot: str = ""
    """Of a sealed one: the digest of its memory."""
    build_seconds: float | None = None
    """Of the host's; None where it was not noted."""


def bytes_of(folder: Path) -> int:
    """What its files take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir() if path.is_file())


def number(value: object) -> float | None:
    """Of a manifest: a number, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class Store:
    """The folder of templates. A template is used only through `open`."""

    def __init__(self, home: Home | None = None) -> None:
        self.home = home or Home.current()

    def digest_of(self, name_or_digest: str) -> str:
        """The digest that a name, a digest or the beginning of one (8 or more) stands for. Raises TemplateNotFound."""
        try:
            if "/" not in name_or_digest:
                return (self.home.names / name_or_digest).read_text().strip()
        except (OSError, ValueError):
            pass
        digests = [folder.name for folder in self._folders()]
        matching = [digest for digest in digests if len(name_or_digest) >= 8 and digest.startswith(name_or_digest)]
        if len(matching) == 1:
            return matching[0]
        names = sorted({*shipped(), *(path.name for path in self._names())})
        raise TemplateNotFound(
            f"there is no template '{name_or_digest}'; {nearest(name_or_digest, names)}",
            where=str(self.home.templates),
            remedy="`stormcell template list` shows what there is, `stormcell template build` makes one",
        )

    def open(self, digest: str, *, full: bool = False) -> Template:
        """The template, once its files and those of its image were found whole and made by this QEMU.

        Raises TemplateNotFound, TemplateBroken. `full` reads every byte; manifest.py says what the quick check sees.
        """
        folder = self.home.templates / digest
        if not folder.is_dir():
            raise TemplateNotFound("there is no such template", where=str(folder))
        manifest = verify_files(folder, full=full)
        try:
            return self._opened(folder, manifest, full)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TemplateBroken(
                "its manifest is of another version of stormcell",
                where=str(folder),
                remedy="build it again",
                detail=f"{type(error).__name__}: {error}",
            ) from error

    def _opened(self, folder: Path, manifest: dict[str, Any], full: bool) -> Template:
        verify_files(self.home.rootfs / str(manifest["inputs"]["image"]), full=full)
        if Path(manifest["folder"]).resolve() != folder.resolve():
            raise TemplateBroken("the template was moved; its disks name the old place", where=str(folder))
        if manifest["inputs"]["qemu"]["sha256"] != find_qemu().digest:
            raise TemplateBroken("another QEMU made this snapshot", where=str(folder), remedy="build it again")
        return _template(folder, manifest)

    def remember(self, name: str, digest: str) -> None:
        """Let `name` stand for `digest`."""
        private_folder(self.home.names)
        write_atomically(self.home.names / name, digest + "\n")

    def named(self) -> dict[str, str]:
        """Every name, and the digest that it stands for."""
        found = {}
        for path in self._names():
            try:
                found[path.name] = path.read_text().strip()
            except OSError:
                continue
        return found

    def list(self) -> Sequence[Entry]:
        """All that is there, whole or not, newest first."""
        return sorted((self._entry(folder) for folder in self._folders()), key=lambda entry: entry.built, reverse=True)

    def show(self, name_or_digest: str, *, verify: bool = False) -> dict[str, Any]:
        """A template's manifest. `verify` reads every byte first. Raises TemplateNotFound, TemplateBroken."""
        digest = self.digest_of(name_or_digest)
        if verify:
            self.open(digest, full=True)
        return {"digest": digest, **read_manifest(self.home.templates / digest)}

    def remove(self, name_or_digest: str) -> Sequence[Path]:
        """Remove a template and the names for it; its image stays for the next build. What was removed.

        Raises TemplateNotFound, TemplateError while it is being built. Sandboxes of it go on, but a cold boot of one
        needs its disk.
        """
        digest = self.digest_of(name_or_digest)
        folder = self.home.templates / digest
        removed = [path for path in self._names() if path.read_text().strip() == digest]
        for path in removed:
            path.unlink()
        if folder.exists():
            take_away(folder)
            removed.append(folder)
        return removed

    def _folders(self) -> Iterator[Path]:
        return folders_by_digest(self.home.templates)

    def _names(self) -> Sequence[Path]:
        return sorted(self.home.names.iterdir()) if self.home.names.is_dir() else []

    def _entry(self, folder: Path) -> Entry:
        state, reason = "ready", ""
        about: dict[str, Any] = {}
        try:
            about = read_manifest(folder)
            self.open(folder.name)
        except TemplateError as error:
            state, reason = ("stale" if about and "QEMU" in error.what else "broken"), error.what
        inputs = about.get("inputs")
        found = inputs.get("shape") if isinstance(inputs, dict) else None
        shape = found if isinstance(found, dict) else {}
        return Entry(
            name=str(about.get("name", "?")),
            digest=folder.name,
            state=state,
            reason=reason,
            bytes_on_disk=bytes_of(folder),
            memory_mib=int(shape.get("memory_mib", 0)),
            accel=str(shape.get("accel", "?")),
            built=str(about.get("built", "")),
        )


def _template(folder: Path, manifest: dict[str, Any]) -> Template:
    return Template(
        name=manifest["name"],
        digest=folder.name,
        folder=folder,
        shape=Shape(**manifest["inputs"]["shape"]),
        kernel=folder / "vmlinuz",
        initrd=folder / "initrd.cpio",
        disk=folder / "disk.qcow2",
        overlay=folder / "overlay.qcow2",
        memory=folder / "memory",
        state=folder / "state",
        wall_clock_ns=int(manifest["wall_clock_ns"]),
        services=tuple(manifest["services"]),
        manifest=manifest,
    )


def folders_by_digest(root: Path) -> Iterator[Path]:
    """The folders below `root` that are named by a sha256."""
    if root.is_dir():
        for path in root.iterdir():
            if path.is_dir() and len(path.name) == 64:
                yield path


def take_away(folder: Path) -> None:
    """Remove a template's folder and the lock beside it. Raises TemplateError while it is being built."""
    beside = folder.with_name(f"{folder.name}.lock")
    with lock(beside, wait=False) as free:
        if not free:
            raise TemplateError("the template is being built", where=str(folder), remedy="wait for its end")
        (folder / NAME).unlink(missing_ok=True)  # from here on it is a broken one, whatever happens
        shutil.rmtree(folder)
        beside.unlink(missing_ok=True)
