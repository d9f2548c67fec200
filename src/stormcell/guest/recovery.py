"""Measure again and again until the bounds hold, or the time is over; for the runner and for the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stormcell.guest import measure
from stormcell.guest.measure import Bound
from stormcell.guest.probes.attempts import Taken

Promising = Callable[[list[list[Any]]], bool]
Take = Callable[[Mapping[str, Any], Promising | None], Taken]
"""`take(spec, promising)`: one measurement."""


def until_holds(
    kind: str,
    spec: Mapping[str, Any],
    bounds: Sequence[Bound],
    *,
    within: float,
    every: float,
    elapsed: Callable[[], float],
    take: Take,
    sleep: Callable[[float], None],
) -> dict[str, Any]:
    """The fields of a `recovered` event: the last try, `attempts` (how many tries), `began_s` and `seconds`.

    These two are `elapsed()` (seconds since the undo) at the start and at the end of the last try. It is the first that
    holds, or the last that began within `within`; a first try is always made, however late.
    """
    spec, bounds, note = measure.for_recovery(kind, spec, bounds)
    planned = spec.get("count") or 1
    tries = 0
    while True:
        tries += 1
        began = elapsed()
        taken = take(spec, lambda samples: measure.could_hold(kind, spec, samples, planned, bounds))
        seconds = elapsed()
        detail = "; ".join(part for part in (note, taken.detail) if part)
        fields = measure.report(kind, spec, "recovery", bounds, taken.samples, detail)
        if not fields["holds"] and seconds + every <= within:
            sleep(every)
            if elapsed() <= within:
                continue
        return {"attempts": tries, "began_s": round(began, 9), "seconds": round(seconds, 9), **fields}
