"""The sealed templates of a home: listed, found by name or digest, removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stormcell.machine.host import find_qemu
from stormcell.spec.errors import TemplateError
from stormcell.spec.home import Home
from stormcell.template.manifest import read_manifest
from stormcell.template.sealed import open_sealed
from stormcell.template.store import Entry, bytes_of, folders_by_digest, number, take_away


class SealedStore:
    """Beside the live ones: any number of one name, for each is a function of more than its recipe."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def list(self) -> Sequence[Entry]:
        """All that is there, whole or not, newest first."""
        return sorted((self._entry(folder) for folder in self._folders()), key=lambda entry: entry.built, reverse=True)

    def matching(self, name_or_digest: str) -> Sequence[str]:
        """The digests of all of a name, or the one that begins so (8 digits or more)."""
        found = [folder.name for folder in self._folders() if folder.name.startswith(name_or_digest)]
        if len(name_or_digest) >= 8 and found:
            return found if len(found) == 1 else []
        return [entry.digest for entry in self.list() if entry.name == name_or_digest]

    def show(self, digest: str, *, verify: bool = False) -> dict[str, Any]:
        """Its manifest. `verify` looks at its files first. Raises TemplateBroken."""
        if verify:
            open_sealed(self.home.sealed / digest, full=True)
        return {"digest": digest, "sealed": True, **read_manifest(self.home.sealed / digest)}

    def remove(self, digest: str) -> Path:
        """Raises TemplateError while it is being built."""
        folder = self.home.sealed / digest
        take_away(folder)
        return folder

    def _folders(self) -> Iterator[Path]:
        return folders_by_digest(self.home.sealed)

    def _entry(self, folder: Path) -> Entry:
        state, reason = "ready", ""
        about: dict[str, Any] = {}
        try:
            about = read_manifest(folder)
            inputs = open_sealed(folder).inputs
            if inputs.get("qemu", {}).get("sha256") != find_qemu().digest:
                state, reason = "stale", "another QEMU made this snapshot"
        except TemplateError as error:
            state, reason = "broken", error.what
        layout = about.get("layout")
        return Entry(
            name=str(about.get("name", "?")),
            digest=folder.name,
            state=state,
            reason=reason,
            bytes_on_disk=bytes_of(folder),
            memory_mib=int(number(layout.get("memory")) or 0) >> 20 if isinstance(layout, dict) else 0,
            accel="tcg",
            built=str(about.get("built", "")),
            sealed=True,
            snapshot=str(about.get("snapshot", "")),
            build_seconds=number(about.get("build_seconds")),
        )
