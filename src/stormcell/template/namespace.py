"""Root inside a user namespace, for one who is not root: files of many owners without any privilege."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stormcell.machine.host import tool
from stormcell.spec.errors import NoPermission


def as_root(argv: Sequence[str | Path]) -> list[str | Path]:
    """`argv`, wrapped so that it sees itself as root; as it is when we are root. Raises MissingTool."""
    if os.geteuid() == 0:
        return list(argv)
    tool("newuidmap", "uidmap")
    return [tool("unshare", "util-linux"), "--map-auto", "--map-root-user", "--", *argv]


def own_mounts(argv: Sequence[str]) -> list[str]:
    """`argv` with mounts that nobody else sees and that end with its last process, also when it is killed.

    Without root, mmdebstrap sees to that itself. Raises MissingTool.
    """
    if os.geteuid() != 0:
        return list(argv)
    return [str(tool("unshare", "util-linux")), "--mount", "--propagation", "private", "--", *argv]


def check_namespace() -> None:
    """Raise NoPermission, with the remedy, when this user cannot have a user namespace with subordinate ids."""
    if os.geteuid() == 0:
        return
    done = subprocess.run(as_root(["true"]), capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        user = pwd.getpwuid(os.geteuid()).pw_name
        raise NoPermission(
            "this user cannot make a user namespace, which building a guest image needs",
            rule="an ordinary user needs 65536 subordinate ids (/etc/subuid, /etc/subgid) and user namespaces",
            remedy=f"as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}; "
            "sysctl kernel.unprivileged_userns_clone=1",
            detail=done.stderr,
        )


def remove_tree(path: Path) -> None:
    """Remove a folder that may hold files of subordinate ids, as a build that was killed leaves it."""
    if not path.exists():
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        subprocess.run(as_root([tool("rm", "coreutils"), "-rf", path]), capture_output=True, timeout=300, check=True)
