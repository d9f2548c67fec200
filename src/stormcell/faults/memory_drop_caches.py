"""`memory.drop-caches`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stormcell.faults._fields import Documented
from stormcell.faults._reading import mapping, numbers
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading

_EVENTS = {"pagecache": {"drop_pagecache": 1, "drop_slab": 0}, "slab": {"drop_pagecache": 0, "drop_slab": 1}}
_EVENTS["all"] = {"drop_pagecache": 1, "drop_slab": 1}
_CACHES = {"pagecache": ("Cached", "Buffers"), "slab": ("SReclaimable",)}
_CACHES["all"] = (*_CACHES["pagecache"], *_CACHES["slab"])


class MemoryDropCaches(Documented):
    """The kernel throws its caches away: what is read next comes from the disk again."""

    kind = "memory.drop-caches"
    needs = Needs(paths=("/proc/sys/vm/drop_caches",))
    counts = "KiB by which these caches shrank in the act"
    proves = "drop_pagecache and drop_slab in /proc/vmstat, and Cached, Buffers and SReclaimable around the act"
    example: ClassVar[dict[str, Any]] = {"kind": "memory.drop-caches"}

    what: Literal["pagecache", "slab", "all"] = "pagecache"
    """`pagecache`: contents of files. `slab`: names and inodes. `all`: both."""
    sync: bool = True
    """Write what is dirty first; only clean pages can be thrown away."""

    def plan(self) -> Act:
        """There is nothing to undo: caches fill again by use."""
        drop = (GUEST, "caches", "drop", self.id, self.what, "sync" if self.sync else "as-is")
        return Act(
            apply=(Command(argv=drop, timeout_s=120),),
            undo=(Command(argv=(GUEST, "caches", "forget", self.id)),),
            read=(Command(argv=(GUEST, "caches", "show", self.id), name="caches"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The kernel counted the drop."""
        then, now = _around(during)
        act = mapping(during, "caches").get("act")
        told = act if isinstance(act, dict) else {}
        was = mapping(before, "caches")
        counted = {key: now.get(key, 0) - then.get(key, 0) for key in ("drop_pagecache", "drop_slab")}
        fits = counted == _EVENTS[self.what] and told.get("sync") is self.sync
        return "act" in was and was["act"] is None and bool(then) and bool(now) and fits

    def acted(self, during: Reading, after: Reading) -> int:
        """Shrunk by; the kernel gives slabs back a moment after the act, so the reading after it counts too."""
        then, now = _around(after)
        soon = numbers(mapping(during, "caches").get("now"))
        shrunk = sum(then.get(key, 0) - min(now.get(key, 0), soon.get(key, 1 << 62)) for key in _CACHES[self.what])
        return max(0, shrunk) >> 10 if then and now else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our note is gone; nothing else of the fault can be left."""
        shown = mapping(undone, "caches")
        return "act" in shown and shown["act"] is None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Each cache before and after."""
        if after is None:
            return ()
        then, now = _around(after)
        return tuple(
            f"{key}: {then[key] >> 10} KiB before, {now[key] >> 10} KiB just after"
            for key in _CACHES[self.what]
            if key in then and key in now
        )

    def cannot_know(self) -> tuple[str, ...]:
        """The host."""
        return (
            "the host may still have the blocks of the disk in its memory: reads are slower, but not as slow as a disk",
        )


def _around(reading: Reading) -> tuple[dict[str, int], dict[str, int]]:
    act = mapping(reading, "caches").get("act")
    told = act if isinstance(act, dict) else {}
    return numbers(told.get("before")), numbers(told.get("after"))
