"""`machine.balloon`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Documented
from stormcell.spec.fault import Needs
from stormcell.spec.units import Size


class MachineBalloon(Documented):
    """The host takes memory away from the running machine, by a balloon that grows in it."""

    kind = "machine.balloon"
    needs = Needs(modules=("virtio_balloon",))
    counts = "bytes that the balloon holds"
    proves = "the balloon's size as the virtual machine monitor shows it, and MemTotal in the guest"
    example: ClassVar[dict[str, Any]] = {"kind": "machine.balloon", "leave": "300MiB"}
    unavailable = (
        "the balloon of QEMU punches the pages that it gets out of the file behind the machine's memory, and that file "
        "is the snapshot which all sandboxes of a template share; so no guest is given such a device. memory.hold "
        "fills the machine's memory from inside"
    )

    leave: Size
    """What stays with the machine."""
