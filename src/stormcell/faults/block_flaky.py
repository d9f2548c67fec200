"""`block.flaky`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from stormcell.faults._block import TRACING, BlockFault, failed, told
from stormcell.faults._fields import shown
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import Duration


class BlockFlaky(BlockFault):
    """A disk works for some seconds, then fails for some seconds, again and again."""

    kind = "block.flaky"
    needs = Needs(modules=("dm-mod", "dm-flakey"), paths=(TRACING,))
    counts = "requests that the device answered with an error"
    proves = "the kernel's count of failed requests of that device; the receipt says in which interval each reading was"
    example: ClassVar[dict[str, Any]] = {"kind": "block.flaky", "path": "/var/lib/app", "up": "5s", "down": "2s"}

    up: Duration
    """It works so long: 1s to 1h, whole seconds."""
    down: Duration
    """It fails so long: 1s to 1h, whole seconds."""
    first: Literal["down", "up"] = "down"
    """With which interval it begins. For `down` the act takes as long as `up`: the kernel begins with that one."""
    operations: Literal["both", "write"] = "both"
    """Which requests fail while it is down."""

    @model_validator(mode="after")
    def _sensible(self) -> BlockFlaky:
        for name, value in (("up", self.up), ("down", self.down)):
            if not 1 <= value <= 3600 or value != round(value):
                raise ValueError(
                    f"'{name}' of {shown(value)} is out of range; it is between 1s and 1h, in whole seconds"
                )
        return self

    @property
    def target(self) -> tuple[str, str]:
        """dm-flakey."""
        features = "0" if self.operations == "both" else "1 error_writes"
        return "flakey", f"@disk {round(self.up)} {round(self.down)} {features}"

    @property
    def wait_s(self) -> float:
        """Its intervals begin when the table is loaded."""
        return self.up if self.first == "down" else 0.0

    def acted(self, during: Reading, after: Reading) -> int:
        """Failed requests."""
        return failed(after)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """The phase too."""
        said = []
        for when, reading in (("after the act", during), ("before the undo", after)):
            phase = told(reading).get("phase")
            if isinstance(phase, dict):
                said.append(f"{when} the disk was {phase.get('now')}, for {phase.get('left_s')} s more")
        return (*said, *super().notes(before, during, after))
