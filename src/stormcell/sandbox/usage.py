"""Who uses which template: sandboxes, snapshots, instants of sealed runs, machines that run."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from stormcell.machine.held import left, note_of
from stormcell.spec.errors import TemplateError
from stormcell.spec.home import Home

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def users(home: Home) -> dict[str, list[str]]:
    """By the templates' digests. Raises TemplateError when a record cannot be read: what it uses is not known."""
    found: dict[str, list[str]] = defaultdict(list)
    for digest, user in (*_recorded(home), *_instants(home), *_machines(home)):
        if user not in found[digest]:
            found[digest].append(user)
    return dict(found)


def _recorded(home: Home) -> Iterator[tuple[str, str]]:
    patterns = {"sandboxes/*/record.json": "sandbox", "sandboxes/.new-*/record.json": "sandbox",
                "snapshots/*/manifest.json": "snapshot"}  # fmt: skip
    for pattern, kind in patterns.items():
        for path in sorted(home.state.glob(pattern)):
            try:
                yield str(json.loads(path.read_bytes())["template"]), f"{kind} {path.parent.name}"
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise TemplateError(
                    f"the {kind} '{path.parent.name}' cannot be read, so nobody knows what it stands on",
                    where=str(path),
                    rule="a template goes when nothing uses it",
                    remedy="stormcell gc" if kind == "sandbox" else f"stormcell snapshot rm {path.parent.name}",
                    detail=f"{type(error).__name__}: {error}",
                ) from error


def _instants(home: Home) -> Iterator[tuple[str, str]]:
    for path in sorted(home.instants.glob("i-*")):
        if _DIGEST.match(digest := note_of(path)) and not left(path):
            yield digest, f"instant {path.name}"


def _machines(home: Home) -> Iterator[tuple[str, str]]:
    """Those whose command line names a template's folder: sealed runs, and machines that are just being started."""
    named = re.compile(b"(?:%s)/([0-9a-f]{64})/" % b"|".join(map(re.escape, map(os.fsencode, _parents(home)))))
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        for digest in {match[1].decode() for match in named.finditer(words)}:
            yield digest, f"process {entry.name}"


def _parents(home: Home) -> tuple[Path, Path]:
    return home.templates, home.sealed
