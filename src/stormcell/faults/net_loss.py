"""`net.loss`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._queue import Queue
from stormcell.faults._tc import close, percent
from stormcell.spec.fault import Needs
from stormcell.spec.units import Percent


class Loss(Queue):
    """Packets are lost at random, and nobody is told."""

    kind = "net.loss"
    qdisc = "netem"
    counter = "drops"
    needs = Needs(programs=("tc", "ip"), modules=("sch_netem", "sch_prio", "cls_flower", "cls_matchall",
                  "sch_ingress", "act_mirred", "ifb"))  # fmt: skip
    counts = "packets dropped by the netem qdisc"
    proves = "the drop counter of the netem qdisc itself (`tc -s qdisc`), with the loss as the kernel shows it"
    example: ClassVar[dict[str, Any]] = {"kind": "net.loss", "device": "eth0", "direction": "both", "loss": "10%"}

    loss: Percent
    """Share of the packets that are lost, from 0.0001%."""
    correlation: Percent = 0.0
    """How much the fate of a packet depends on that of the one before: with more of it, losses come in bursts."""

    @model_validator(mode="after")
    def _sensible(self) -> Loss:
        if self.loss < 1e-4:
            raise ValueError(f"a loss of {self.loss:g}% loses nothing; it is between 0.0001% and 100%")
        return self

    def discipline(self) -> str:
        """`netem loss ...`."""
        correlation = f" {percent(self.correlation)}" if self.correlation else ""
        return f"netem loss {percent(self.loss)}{correlation} limit 100000"

    def shows(self, options: dict[str, Any]) -> bool:
        """Loss and correlation."""
        loss = options.get("loss-random")
        return (
            isinstance(loss, dict)
            and close(loss.get("loss"), self.loss / 100, absolute=1e-9)
            and close(loss.get("correlation"), self.correlation / 100)
            and "delay" not in options
        )

    def cannot_know(self) -> tuple[str, ...]:
        """Segmentation offload, sample size."""
        return (
            "a packet is what the kernel queues: with segmentation offload that is up to 64 KiB of a TCP stream, "
            "so the share of lost segments on a wire would differ",
            *super().cannot_know(),
        )
