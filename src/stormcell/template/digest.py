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
from stormcell.machine.sealed.argv import SealedSpec, sealed_argv
from stormcell.machine.sealed.layout import Layout
from stormcell.spec.recipe import Recipe
from stormcell.template.image import ImageSpec
from stormcell.template.manifest import read_manifest

FORMAT = 2
"""Raised when a template of the same inputs is built in another way."""
SEALED_FORMAT = 1
"""The same for sealed ones."""
ENDS = Ends(range(8), range(8))


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
    argv = qemu_argv(nowhere, spec, ENDS, tsc_khz=0, incoming=False)
    return hashlib.sha256("\0".join(argv).encode()).hexdigest()


def sealed_inputs(inputs: Inputs, layout: Layout, image: Path) -> dict[str, Any]:
    """What a sealed template is built from: the image (its folder) by its content, not by how it was made."""
    live = inputs.as_dict()
    return {
        **{key: live[key] for key in ("recipe", "files", "kernel", "initrd", "qemu")},
        "format": SEALED_FORMAT,
        "image": str(read_manifest(image)["files"]["root.img"]["sha256"]),
        "machine": sealed_machine(layout),
    }


def sealed_digest(inputs: Inputs, layout: Layout, image: Path) -> str:
    """The name of a sealed template (sha256, hex)."""
    return hashlib.sha256(json.dumps(sealed_inputs(inputs, layout, image), sort_keys=True).encode()).hexdigest()


def sealed_machine(layout: Layout) -> str:
    """A digest of QEMU's arguments, the guest's memory and its command line among them."""
    nowhere = Path("/")
    argv = sealed_argv(
        nowhere, SealedSpec("template", layout, nowhere, nowhere, nowhere), ENDS, nowhere, incoming=False
    )
    return hashlib.sha256("\0".join(argv).encode()).hexdigest()
