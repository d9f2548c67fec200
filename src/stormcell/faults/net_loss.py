"""`net.loss`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._fields import one_of
from stormcell.faults._netem import shows_share
from stormcell.faults._queue import Queue, needs
from stormcell.faults._tc import close, percent
from stormcell.spec.units import Percent

GILBERT = {"burst_start": "p", "burst_end": "r", "burst_loss": "1-h", "other_loss": "1-k"}
STATES = ("p13", "p31", "p32", "p23", "p14")
LIMIT = 100_000


class Loss(Queue):
    """Packets are lost, and nobody is told: at random, in bursts, or every nth.

    Say one of `loss` (each packet by chance), `every` (exactly every nth), `burst_start` (bursts by the model of
    Gilbert and Elliott), `p13` (netem's model of four states).
    """

    kind = "net.loss"
    counter = "drops"
    needs = needs("sch_netem", "nft_numgen")
    counts = "packets dropped by the netem qdisc"
    proves = "the drop counter of the netem qdisc itself (`tc -s qdisc`), with the loss as the kernel shows it"
    example: ClassVar[dict[str, Any]] = {"kind": "net.loss", "device": "eth0", "direction": "both", "loss": "10%"}

    loss: Percent | None = None
    """Share of the packets that are lost, from 0.0001%."""
    correlation: Percent = 0.0
    """With `loss`: how much the fate of a packet depends on that of the one before. netem counts it as a share of the
    last random number, so that the loss as a whole becomes less than asked; for bursts take the other models."""
    every: int | None = Field(default=None, strict=True, ge=2, le=1_000_000)
    """Exactly every nth packet is lost: counted by the rule of each family, protocol and address on its own."""
    burst_start: Percent | None = None
    """Chance that a packet begins a burst of losses (p of the Gilbert-Elliott model)."""
    burst_end: Percent | None = None
    """Chance that a packet ends the burst (r). A burst lasts 1/r packets in the mean. Default: 100% less p."""
    burst_loss: Percent | None = None
    """Share that is lost within a burst (1-h). Default: 100%."""
    other_loss: Percent | None = None
    """Share that is lost outside of bursts (1-k). Default: 0%."""
    p13: Percent | None = None
    """Chance to go from received (state 1) to lost in a burst (3)."""
    p31: Percent | None = None
    """From lost in a burst back to received. Default: 100% less p13."""
    p32: Percent | None = None
    """From lost in a burst to received within the burst (2). Default: 0%."""
    p23: Percent | None = None
    """From received within the burst to lost. Default: 100%."""
    p14: Percent | None = None
    """From received to a single loss (4). Default: 0%."""

    @model_validator(mode="after")
    def _sensible(self) -> Loss:
        one_of(loss=self.loss, every=self.every, burst_start=self.burst_start, p13=self.p13)
        for name, model in (("loss", self.loss), ("burst_start", self.burst_start), ("p13", self.p13)):
            if model is not None and model < 1e-4:
                raise ValueError(f"a {name} of {model:g}% loses nothing; it is between 0.0001% and 100%")
        if self.loss is None and self.correlation:
            raise ValueError("correlation belongs to 'loss'; the other models have chances of their own")
        for first, *others in (tuple(GILBERT), STATES):
            odd = [name for name in others if getattr(self, name) is not None]
            if odd and getattr(self, first) is None:
                raise ValueError(f"'{odd[0]}' belongs to '{first}', which is not given")
        return self

    def picks(self) -> tuple[str, tuple[dict[str, Any], ...]]:
        """Every nth is chosen by a rule, and the qdisc drops all that it gets."""
        if self.every is None:
            return "", ()
        left = {"numgen": {"mode": "inc", "mod": self.every, "offset": 0}}
        text = f"numgen inc mod {self.every} == {self.every - 1}"
        return text, ({"match": {"op": "==", "left": left, "right": self.every - 1}},)

    def discipline(self) -> str:
        """`netem loss ...`."""
        if self.burst_start is not None:
            model = f"gemodel {_several(self._gilbert())}"
        elif self.p13 is not None:
            model = f"state {_several(self._states())}"
        else:
            model = f"{percent(self._share)} {percent(self.correlation)}"
        return f"netem loss {model} limit {LIMIT}"

    def shows(self, options: dict[str, Any]) -> bool:
        """The model with all its chances, and nothing else."""
        if "delay" in options:
            return False
        if self.burst_start is not None:
            return _shows(options.get("loss-gemodel"), dict(zip(GILBERT.values(), self._gilbert(), strict=True)))
        if self.p13 is not None:
            return _shows(options.get("loss-state"), dict(zip(STATES, self._states(), strict=True)))
        return shows_share(options, "loss-random", "loss", self._share, self.correlation)

    def cannot_know(self) -> tuple[str, ...]:
        """Segmentation offload, sample size."""
        return (
            "a packet is what the kernel queues: with segmentation offload that is up to 64 KiB of a TCP stream, "
            "so the share of lost segments on a wire would differ",
            *super().cannot_know(),
        )

    @property
    def _share(self) -> float:
        return 100.0 if self.loss is None else self.loss

    def _gilbert(self) -> Iterator[float]:
        start = self.burst_start or 0.0
        yield start
        yield 100 - start if self.burst_end is None else self.burst_end
        yield 100.0 if self.burst_loss is None else self.burst_loss
        yield self.other_loss or 0.0

    def _states(self) -> Iterator[float]:
        first = self.p13 or 0.0
        yield first
        yield 100 - first if self.p31 is None else self.p31
        yield self.p32 or 0.0
        yield 100.0 if self.p23 is None else self.p23
        yield self.p14 or 0.0


def _several(shares: Iterator[float]) -> str:
    return " ".join(map(percent, shares))


def _shows(shown: Any, wanted: dict[str, float]) -> bool:
    return isinstance(shown, dict) and all(
        close(shown.get(name), share / 100, absolute=1e-9) for name, share in wanted.items()
    )
