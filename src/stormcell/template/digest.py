"""The name of a template: a digest of all that a snapshot must match to be restored and to mean what it says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stormcell.machine.argv import Ends, qemu_argv
from stormcell.machine.host import Qemu
from stormcell.machine.model import MachineSpec, Shape
from stormcell.spec.recipe import Recipe
from stormcell.template.image import ImageSpec

FORMAT = 2
"""Raised when a template of the same inputs is built in another way."""


@dataclass(frozen=True)
class Inputs:
    """What a template is built from, all resolved."""

    recipe: Recipe
    contents: dict[str, bytes]
    image: ImageSpec
    initrd_sha256: str
    qemu: Qemu
    shape: Shape

    def as_dict(self) -> dict[str, Any]:
        """In plain values; the manifest keeps it, so that two templates can be compared."""
        written = self.recipe.model_dump(mode="json", exclude={"description"})
        return {
            "format": FORMAT,
            "recipe": written,
            "files": {path: hashlib.sha256(content).hexdigest() for path, content in self.contents.items()},
            "image": self.image.digest,
            "kernel": self.image.kernel.digest,
            "initrd": self.initrd_sha256,
            "qemu": {"version": self.qemu.version, "sha256": self.qemu.digest},
            "shape": asdict(self.shape),
            "machine": machine_layout(self.shape),
        }

    @property
    def digest(self) -> str:
        """sha256, hex."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()


def machine_layout(shape: Shape) -> str:
    """A digest of the devices and their order: a device state fits only the machine that it was saved from."""
    nowhere = Path("/")
    spec = MachineSpec("template", shape, nowhere, nowhere, nowhere, nowhere)
    argv = qemu_argv(nowhere, spec, Ends(range(8), range(8)), tsc_khz=0, incoming=False)
    return hashlib.sha256("\0".join(argv).encode()).hexdigest()
