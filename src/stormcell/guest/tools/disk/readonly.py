"""Make the file system that holds a path read-only, and count who is refused for it."""

from __future__ import annotations

import errno
import os
from typing import Any

from stormcell.guest.tools import claims, common, mounts, openers, refusals


def act(mark: str, path: str) -> dict[str, Any]:
    """Remount it read-only. Refused while somebody has a file open for writing there, as the kernel does."""
    held = mounts.of(path)
    claims.take(mark, [f"read-only {held.dev}"], f"the file system that holds {path}", "made read-only")
    if held.read_only:
        raise ValueError(f"{path} is on {held.source}, which is read-only already")
    common.put_mark(mark, {"path": path, "mount": held.point, "flags": held.flags, "source": held.source})
    refusals.start(mark, (errno.EROFS,))
    try:
        mounts.mount("none", held.point, "", mounts.MS_REMOUNT | mounts.MS_RDONLY | held.flags)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        found = openers.below(held.point, writing=True)
        raise ValueError(
            f"{held.point} cannot become read-only while files are open for writing there, by "
            f"{openers.sentence(found) or 'somebody'}; block.error with `operations: write` fails writes all the same"
        ) from error
    return {"mount": held.point}


def restore(mark: str) -> None:
    """Writable again. May be said twice."""
    note = common.get_mark(mark)
    if note is not None:
        held = mounts.at(note["mount"])
        if held is not None and held.read_only and held.source == note["source"]:
            mounts.mount("none", note["mount"], "", mounts.MS_REMOUNT | note["flags"])
    refusals.stop(mark)
    claims.drop(mark)
    common.drop_mark(mark)


def show(mark: str, path: str) -> dict[str, Any]:
    """The mount, what became of a write of ours, and who else was refused."""
    held = mounts.of(path)
    refused = refusals.counted(mark)
    return {
        "mount": held.point,
        "source": held.source,
        "kind": held.kind,
        "read_only": held.read_only,
        "write": _try_write(held.point),
        "refused": refused,
        "act": common.get_mark(mark),
    }


def _try_write(folder: str) -> str:
    """`ok`, or the name of the error."""
    refusals.call_me("probe")
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")
    return "ok"


def main(argv: list[str]) -> int:
    """`readonly act|restore|show`."""
    return common.serve("readonly", {"act": act, "restore": restore, "show": show}, argv)
