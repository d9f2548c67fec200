"""Where things live on the host.

With `STORMCELL_HOME` set: `$STORMCELL_HOME/state` and `$STORMCELL_HOME/cache`. Otherwise the XDG base folders.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stormcell.spec.errors import NoPermission


@dataclass(frozen=True)
class Home:
    """The two roots. `cache` can be deleted at any time without losing a result; `state` cannot."""

    state: Path
    cache: Path

    @classmethod
    def current(cls) -> Home:
        """Read from the environment now, not at import: tests and users change it."""
        if root := os.environ.get("STORMCELL_HOME"):
            base = Path(root).expanduser().absolute()
            return cls(base / "state", base / "cache")
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return cls(Path(state).expanduser() / "stormcell", Path(cache).expanduser() / "stormcell")

    @property
    def sandboxes(self) -> Path:
        """One folder a sandbox."""
        return self.state / "sandboxes"

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.state / "runs"

    @property
    def campaigns(self) -> Path:
        """One folder a campaign."""
        return self.state / "campaigns"

    @property
    def templates(self) -> Path:
        """One folder a template, named by its digest."""
        return self.cache / "templates"

    @property
    def sealed(self) -> Path:
        """One folder a sealed template, named by its digest."""
        return self.cache / "sealed"

    @property
    def instants(self) -> Path:
        """One folder a sealed machine that stands still, for as long as somebody goes on from it."""
        return self.cache / "instants"

    @property
    def names(self) -> Path:
        """One file a template name; its text is a digest."""
        return self.cache / "names"

    @property
    def rootfs(self) -> Path:
        """Guest root file systems by the digest of their package list."""
        return self.cache / "rootfs"

    @property
    def kernels(self) -> Path:
        """Guest kernels, unpacked."""
        return self.cache / "kernels"


def private_folder(path: Path) -> Path:
    """Make `path` and its missing parents, for this user's eyes only. Raises NoPermission."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NoPermission(
            f"the folder cannot be made ({error.strerror})",
            where=str(path),
            remedy="set STORMCELL_HOME to a folder that this user may write to",
        ) from error
    return path
