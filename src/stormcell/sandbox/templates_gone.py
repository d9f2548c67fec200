"""Templates that may go, live and sealed: those that nothing uses; removed with what was freed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.sandbox.usage import users
from stormcell.spec.errors import TemplateError, TemplateNotFound
from stormcell.spec.home import Home
from stormcell.template.sealedstore import SealedStore
from stormcell.template.store import Entry, Store

RECENT_S = 3600.0
"""One that was asked for so lately is in somebody's hands, though nothing stands on it right now."""


@dataclass(frozen=True)
class Gone:
    """One template. `kept` says why it stayed; `freed` are bytes on the disk."""

    entry: Entry
    why: str
    kept: str = ""
    freed: int = 0
    paths: tuple[Path, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        entry = self.entry
        about = {"name": entry.name, "digest": entry.digest, "sealed": entry.sealed, "why": self.why}
        return {**about, "kept": self.kept, "freed": self.freed, "paths": [str(path) for path in self.paths]}


def remove_named(home: Home, names: Sequence[str]) -> list[Gone]:
    """The live template and the sealed ones of each name or digest. Raises TemplateNotFound, TemplateError for one that
    is used; then nothing was removed."""
    wanted: dict[str, Entry] = {}
    for name in names:
        wanted.update({entry.digest: entry for entry in _named(home, name)})
    used = users(home)
    for entry in wanted.values():
        if by := used.get(entry.digest):
            names_of = [user.removeprefix("snapshot ") for user in by if user.startswith("snapshot ")]
            remedy = f"remove them first: stormcell snapshot rm {' '.join(names_of)}" if names_of else "end them first"
            what = "what snapshots stand on" if len(names_of) == len(by) else "in use"
            said = ", ".join(names_of if len(names_of) == len(by) else by)
            raise TemplateError(
                f"the template '{entry.name}' ({entry.digest[:12]}) is {what}: {said}",
                rule="a template goes when nothing uses it",
                remedy=remedy,
            )
    return [_remove(home, entry, "asked for") for entry in wanted.values()]


def remove_stale(home: Home, *, dry_run: bool = False) -> Iterator[Gone]:
    """All that are broken, made by another QEMU, or replaced by a newer one of the name, unless they are used."""
    used = users(home)
    for entry, why in stale(home):
        by = used.get(entry.digest) or []
        folder = (home.sealed if entry.sealed else home.templates) / entry.digest
        try:
            age = time.time() - folder.stat().st_mtime
        except OSError:
            continue
        if by:
            yield Gone(entry, why, kept=f"in use: {', '.join(by[:3])}")
        elif age < RECENT_S:
            yield Gone(entry, why, kept=f"asked for {max(0, int(age // 60))} minutes ago")
        elif dry_run:
            yield Gone(entry, why, freed=entry.bytes_on_disk, paths=(folder,))
        else:
            try:
                yield _remove(home, entry, why)
            except TemplateError as error:
                yield Gone(entry, why, kept=error.what)


def stale(home: Home) -> Iterator[tuple[Entry, str]]:
    """Each with its reason."""
    store = Store(home)
    current = set(store.named().values())
    for entry in store.list():
        if entry.state != "ready":
            yield entry, entry.reason
        elif entry.digest not in current:
            yield entry, "a newer one has its name"
    seen: set[str] = set()
    for entry in SealedStore(home).list():
        if entry.state != "ready":
            yield entry, entry.reason
        elif entry.name in seen:
            yield entry, "a newer one has its name"
        seen.add(entry.name)


def _named(home: Home, name: str) -> list[Entry]:
    store, sealed = Store(home), SealedStore(home)
    digests = set(sealed.matching(name))
    found = [entry for entry in sealed.list() if entry.digest in digests]
    try:
        digest = store.digest_of(name)
    except TemplateNotFound:
        if not found:
            raise
        return found
    live = next((entry for entry in store.list() if entry.digest == digest), None)
    return [live or Entry(name, digest, "broken", "its folder is gone", 0, 0, "?", ""), *found]


def _remove(home: Home, entry: Entry, why: str) -> Gone:
    paths = (SealedStore(home).remove(entry.digest),) if entry.sealed else tuple(Store(home).remove(entry.digest))
    return Gone(entry, why, freed=entry.bytes_on_disk, paths=paths)
