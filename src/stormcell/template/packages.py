"""The packages that an image has, each as `name=version`, and how two lists differ."""

from __future__ import annotations

from collections.abc import Sequence


def installed(status: str) -> list[str]:
    """From lines of dpkg's state and `name=version`: what is installed, sorted."""
    return sorted(line.removeprefix("installed ") for line in status.splitlines() if line.startswith("installed "))


def differences(wanted: Sequence[str], found: Sequence[str]) -> list[str]:
    """One line a package that is not the same in both, sorted: `curl: 7.88.1-10, here 7.88.1-11`."""
    ours, theirs = (dict(entry.partition("=")[::2] for entry in entries) for entries in (wanted, found))
    names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    return [f"{name}: {ours.get(name, 'absent')}, here {theirs.get(name, 'absent')}" for name in names]
