"""`entropy.starve`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Documented
from stormcell.spec.fault import Needs


class EntropyStarve(Documented):
    """Reads of random numbers block for want of entropy."""

    kind = "entropy.starve"
    needs = Needs()
    counts = "reads of random numbers that blocked"
    proves = "nothing: no such thing can happen"
    example: ClassVar[dict[str, Any]] = {"kind": "entropy.starve"}
    unavailable = (
        "since Linux 5.6 neither getrandom nor /dev/random blocks once the generator is seeded, as a guest's is before "
        "its first process runs, and since 5.18 there is no pool that could run dry; an error from /dev/random can be "
        "had from the faults on files and system calls"
    )
