"""One look at a path."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from typing import Any

from stormcell.guest.probes.attempts import Taken

SEARCHED = 1 << 20


def take(spec: Mapping[str, Any]) -> Taken:
    """One sample. Only a regular file is opened; an error other than "not there" leaves everything unmeasured."""
    facts: dict[str, Any] = {"size": None, "matches": None}
    try:
        found = os.stat(spec["path"])
        outcome = "exists"
        facts["size"] = found.st_size
        if spec.get("match") and stat.S_ISREG(found.st_mode):
            facts["matches"] = re.search(spec["match"], _text(spec["path"])) is not None
    except (FileNotFoundError, NotADirectoryError):
        outcome = "absent"
    except OSError as error:
        outcome = errno.errorcode.get(error.errno or 0, "error")
    return Taken([[0.0, None, outcome, facts]])


def _text(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with os.fdopen(fd, "rb", closefd=False) as stream:
            return stream.read(SEARCHED).decode(errors="replace")
    finally:
        os.close(fd)
