"""Why the machine of a recorded run came out as another one here. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stormcell.engine.sealed.bundle import Sealed
from stormcell.spec.errors import SpecError
from stormcell.template.packages import differences

NAMED = {
    "kernel": "guest kernel", "image": "packages", "initrd": "guest programs", "qemu": "QEMU", "machine": "machine",
    "recipe": "recipe", "files": "files of the recipe", "format": "format",
}  # fmt: skip
SAME_PACKAGES = "disk image of the same packages"
VERSIONS = (
    "a replay needs the same kernel, packages, QEMU and stormcell that the run had",
    "use a machine with those of sealed.json: install the versions that it names",
)
IMAGE = (
    "the same packages make another image when one of them draws something at random as it is installed, or when "
    "another e2fsprogs or kmod lays it out",
    "repeat the run where its template is: docs/sealed.md, 'Where it ends'",
)


def not_the_same(
    folder: Path, recorded: Sealed, inputs: Mapping[str, Any], snapshot: str, packages: Sequence[str]
) -> SpecError:
    """What to tell about the run in `folder`; the last three are of the template that was made here from its recipe."""
    differ = [key for key in recorded.inputs if inputs.get(key) != recorded.inputs[key]]
    others = differences(recorded.packages, packages)
    only_the_image = "image" in differ and not others
    names = {**NAMED, "image": SAME_PACKAGES} if only_the_image else NAMED
    rule, remedy = IMAGE if only_the_image and differ == ["image"] else VERSIONS
    named = [names.get(key, key) for key in differ] or ["snapshot of equal inputs"]
    return SpecError(
        f"the run cannot be repeated here: another {' and another '.join(named)}",
        where=str(folder),
        rule=rule,
        remedy=remedy,
        detail="\n".join([*_told(recorded, inputs, snapshot, differ), *others]),
    )


def _told(recorded: Sealed, inputs: Mapping[str, Any], snapshot: str, differ: Sequence[str]) -> Iterator[str]:
    for key in differ:
        was, now = _short(recorded.inputs[key]), _short(inputs.get(key))
        if was != now:
            yield f"{key}: recorded {was}, here {now}"
    if not differ:
        yield f"snapshot: recorded {recorded.snapshot}, here {snapshot}"


def _short(value: Any) -> str:
    """A program by its version and build; of what is long, that it is there."""
    if not isinstance(value, Mapping):
        return str(value)
    return f"{value['version']} ({str(value.get('sha256'))[:12]})" if "version" in value else "given"
