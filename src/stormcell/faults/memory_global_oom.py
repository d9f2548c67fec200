"""`memory.global-oom`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._oom import OomKill
from stormcell.spec.fault import Needs


class MemoryGlobalOom(OomKill):
    """The whole guest runs out of memory, and the kernel kills the victim that was asked for.

    A process of ours takes all that is left, page cache included; programs are read from the disk again afterwards. The
    agent and what carries out the undo are protected for the time.
    """

    needs_target = False
    kind = "memory.global-oom"
    needs = Needs(paths=("/dev/kmsg",))
    counts = "processes that the kernel killed because the guest was out of memory and that are the victim asked for"
    proves = "the victim's pid in the kernel log, with the whole guest as the one out of memory"
    example: ClassVar[dict[str, Any]] = {
        "kind": "memory.global-oom", "service": "postgresql", "victim": "target",
    }  # fmt: skip

    @model_validator(mode="after")
    def _somebody(self) -> MemoryGlobalOom:
        if self.victim == "target" and self.target[0] == "none":
            raise ValueError("`victim: target` needs a target, for example a service; or write `victim: any`")
        return self

    def work(self) -> tuple[str, ...]:
        """No more than the victim."""
        return ("in-guest",)
