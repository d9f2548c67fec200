"""Digests of a folder's files, written when it was built and checked when it is used.

Two checks. The quick one, on every use, compares each file's size, modification time (ns) and inode number with those
noted after the build: it finds a file that was written to, replaced, cut or copied back, not one whose bytes rotted on
the disk or whose times somebody set back on purpose. The full one reads every byte (sha256); it runs on
`template show --verify`, and whenever the quick one finds a difference that may be harmless (a restored backup).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stormcell.machine.durable import write_atomically
from stormcell.spec.errors import TemplateBroken

NAME = "manifest.json"


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Describe every file in `folder`. The folder may be renamed afterwards, its files not touched."""
    files = {path.name: {"sha256": sha256(path), **_stamp(path)} for path in sorted(folder.iterdir()) if path.is_file()}
    write_atomically(folder / NAME, json.dumps({**about, "files": files}, indent=2) + "\n")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Raises TemplateBroken when it is not there or no manifest: the build never ended."""
    try:
        manifest = json.loads((folder / NAME).read_text())
        if not isinstance(manifest, dict) or not isinstance(manifest["files"], dict) or not manifest["files"]:
            raise ValueError("it lists no files")
    except (OSError, ValueError, KeyError) as error:
        raise TemplateBroken("there is no whole manifest", where=str(folder), detail=str(error)) from error
    return manifest


def untouched(path: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether a file of the folder is there as it was when it was noted; by the quick check."""
    try:
        stamp = _stamp(path)
        return bool(stamp == {key: manifest["files"][path.name][key] for key in stamp})
    except (OSError, KeyError, TypeError):
        return False


def verify_files(folder: Path, *, full: bool = False) -> dict[str, Any]:
    """The manifest, once every file was found as it was built. Raises TemplateBroken that names the file.

    What had to be read is noted anew, so that a home that was copied is slow once.
    """
    manifest = read_manifest(folder)
    noted = False
    for name, wanted in manifest["files"].items():
        path = folder / name
        try:
            stamp = _stamp(path)
            known = stamp == {key: wanted[key] for key in stamp}
            if known and not full:
                continue
            same = stamp["size"] == wanted["size"] and sha256(path) == wanted["sha256"]
            unmoved = stamp == _stamp(path)  # nobody wrote while it was read
        except (OSError, KeyError, TypeError) as error:
            raise _broken(path, f"it cannot be read ({error})") from error
        if not same:
            raise _broken(path, "its bytes are not those that were built")
        if unmoved and not known:
            wanted.update(stamp)
            noted = True
    if noted:
        try:
            write_atomically(folder / NAME, json.dumps(manifest, indent=2) + "\n")
        except OSError:
            pass  # a cache that may not be written to is read again the next time
    return manifest


def sha256(path: Path) -> str:
    """Of a file's content, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> dict[str, int]:
    about = path.stat()
    return {"size": about.st_size, "mtime_ns": about.st_mtime_ns, "inode": about.st_ino}


def _broken(path: Path, why: str) -> TemplateBroken:
    return TemplateBroken(
        f"the template's file '{path.name}' is broken: {why}",
        where=str(path),
        rule="a template is used only if every file is the one that was built",
        remedy="build it again; the broken one is replaced",
    )
