"""`syscall.failslab`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Documented
from stormcell.spec.fault import Needs


class SyscallFailslab(Documented):
    """The kernel's own allocations fail, and with them whatever call needed one (failslab, fail_page_alloc)."""

    kind = "syscall.failslab"
    needs = Needs()
    counts = "allocations that were made to fail"
    proves = "the fault attribute's own count, and the traces in the kernel log"
    example: ClassVar[dict[str, Any]] = {"kind": "syscall.failslab", "service": "web", "rate": "1%"}
    unavailable = (
        "failslab and fail_function need a kernel with CONFIG_FAULT_INJECTION and CONFIG_FAILSLAB, and the guest's "
        "kernel is built without them; syscall.errno with ENOMEM makes calls fail, not allocations inside the kernel"
    )

    service: str
    """A service of the template."""
    rate: str
    """Chance of each allocation."""
