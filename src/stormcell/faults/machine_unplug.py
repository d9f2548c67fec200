"""`machine.unplug`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Documented, GuestPath
from stormcell.spec.fault import Needs


class MachineUnplug(Documented):
    """A disk is pulled out of the running machine."""

    kind = "machine.unplug"
    needs = Needs()
    counts = "disks that are gone"
    proves = "the guest's list of block devices"
    example: ClassVar[dict[str, Any]] = {"kind": "machine.unplug", "path": "/var/lib/app"}
    unavailable = (
        "the machine has one disk, which holds its root, and its virtio-mmio bus knows no unplugging; without it "
        "nothing is left to measure or to undo. block.error makes every request to a data volume fail, as a pulled "
        "disk does; machine.crash with mode power takes the whole machine away"
    )

    path: GuestPath
    """A path on the disk."""
