"""Where a system breaks, by halves. Pure: what was seen goes in, the runs that are needed next or the answer comes out.

At each value runs are made until most of `repeats` agree. The threshold's interval is as wide as the doubt: it ends at
values where every run said the same and every run beyond them did, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stormcell.judge.cells import proportion
from stormcell.judge.wording import percent
from stormcell.spec.campaign import Find
from stormcell.spec.matrix import Point, SearchResult
from stormcell.spec.quantity import Quantity, between, quantity

NEAR = 0.05
"""By default the ends are this close together, as a share of the larger one."""
GEOMETRIC = 8.0
"""A range whose ends differ by this factor or more is halved on a logarithmic scale."""


@dataclass
class Seen:
    """The runs at one value: for each its id and whether it broke; None when it said nothing about that."""

    at: Quantity
    runs: list[tuple[str, bool | None]] = field(default_factory=list)

    @property
    def broke(self) -> int:
        """Runs that broke."""
        return sum(said is True for _, said in self.runs)

    @property
    def held(self) -> int:
        """Runs that did not."""
        return sum(said is False for _, said in self.runs)


@dataclass(frozen=True)
class Ask:
    """So many more runs at this value."""

    at: Quantity
    count: int


Found = Mapping[float, Seen]
"""What was seen, by value."""


def next_step(find: Find, found: Found) -> tuple[Ask, ...] | SearchResult:
    """The runs that are needed next (they may run at the same time), or the answer."""
    low, high = find.ends
    asks = tuple(ask for end in (low, high) if (ask := _undecided(find, found, end)))
    if asks:
        return asks
    ends = [_broke(found, end) for end in (low, high)]
    if None in ends:
        return _nothing(find, found, low if ends[0] is None else high)
    if ends[0] == ends[1]:
        return _one_sided(find, found, breaks=bool(ends[0]))
    holds, breaks = (low, high) if ends[1] else (high, low)
    while True:
        middle = None if _near(find, holds, breaks) else between(*_sorted(holds, breaks), geometric=_geometric(find))
        if middle is None or _spent(found) >= find.most_runs:
            break
        if ask := _undecided(find, found, middle):
            return (ask,)
        broke = _broke(found, middle)
        if broke is None:
            return _nothing(find, found, middle)
        holds, breaks = (holds, middle) if broke else (middle, breaks)
    asks = tuple(ask for end in (holds, breaks) if (ask := _unconfirmed(find, found, end)))
    if asks and _spent(found) < find.most_runs:
        return asks
    return _answer(find, found, holds, breaks)


def unfinished(find: Find, found: Found, why: str) -> SearchResult:
    """The answer of a search that was stopped."""
    return _result(find, found, "unfinished", f"the search has not come to an end: {why}")


def _sorted(one: Quantity, other: Quantity) -> tuple[Quantity, Quantity]:
    return (one, other) if one.value <= other.value else (other, one)


def _geometric(find: Find) -> bool:
    low, high = find.ends
    return low.value > 0 and high.value / low.value >= GEOMETRIC


def _near(find: Find, holds: Quantity, breaks: Quantity) -> bool:
    apart = abs(holds.value - breaks.value)
    enough = quantity(find.within).value if find.within is not None else NEAR * max(abs(holds.value), abs(breaks.value))
    return apart <= enough


def _spent(found: Found) -> int:
    return sum(len(seen.runs) for seen in found.values())


def _need(find: Find) -> int:
    return find.repeats // 2 + 1


def _undecided(find: Find, found: Found, at: Quantity) -> Ask | None:
    """None when most of `repeats` agree, or twice as many runs did not decide."""
    seen = found.get(at.value) or Seen(at)
    missing = _need(find) - max(seen.broke, seen.held)
    room = 2 * find.repeats - len(seen.runs)
    return Ask(at, min(missing, room)) if missing > 0 and room > 0 else None


def _unconfirmed(find: Find, found: Found, at: Quantity) -> Ask | None:
    """The two ends of the answer get all their runs: they are what it rests on."""
    seen = found[at.value]
    missing = min(find.repeats - seen.broke - seen.held, 2 * find.repeats - len(seen.runs))
    return Ask(at, missing) if missing > 0 else None


def _broke(found: Found, at: Quantity) -> bool | None:
    seen = found[at.value]
    return None if seen.broke == seen.held else seen.broke > seen.held


def _answer(find: Find, found: Found, holds: Quantity, breaks: Quantity) -> SearchResult:
    """From the bracket outwards to values beyond which no run said otherwise."""
    up = breaks.value > holds.value
    order = sorted(found.values(), key=lambda seen: seen.at.value, reverse=not up)
    sure = next((seen for seen in reversed(order) if _all(order[: order.index(seen) + 1], "broke")), None)
    surely = next((seen for seen in order if _all(order[order.index(seen) :], "held")), None)
    mixed = [seen for seen in order if seen.broke and seen.held]
    one, other = (sure.at if sure else find.ends[0 if up else 1]), (surely.at if surely else find.ends[1 if up else 0])
    text = f"it holds at {one.text} and breaks at {other.text}; in between it is not known"
    if mixed:
        shares = ", ".join(f"{seen.at.text} ({seen.broke} of {seen.broke + seen.held} broke)" for seen in mixed)
        text += (
            f". Runs at one value did not agree: {shares}; most of them put it between {holds.text} and {breaks.text}"
        )
    return _result(find, found, "found", text, one, other)


def _all(seen: Sequence[Seen], not_: str) -> bool:
    """Whether no run there did what `not_` says."""
    return all(getattr(item, not_) == 0 for item in seen)


def _one_sided(find: Find, found: Found, breaks: bool) -> SearchResult:
    low, high = find.ends
    if breaks:
        text = (
            f"it is broken already at both ends, {low.text} and {high.text}: there is no threshold to find between them"
        )
        return _result(find, found, "breaks everywhere", text)
    text = f"it breaks at neither end, {low.text} nor {high.text}"
    return _result(find, found, "holds everywhere", text)


def _nothing(find: Find, found: Found, at: Quantity) -> SearchResult:
    seen = found[at.value]
    said = seen.broke + seen.held
    why = f"{seen.broke} of {said} broke" if said else "no run said whether it breaks"
    return _result(find, found, "nothing learnt", f"at {at.text} {len(seen.runs)} runs did not decide: {why}")


def _result(
    find: Find, found: Found, outcome: str, text: str, holds: Quantity | None = None, breaks: Quantity | None = None
) -> SearchResult:
    ends = sorted((holds.value, breaks.value)) if holds and breaks else (None, None)
    harder = None if not holds or not breaks else "up" if breaks.value > holds.value else "down"
    return SearchResult.model_validate(
        {
            "sentence": find.sentence,
            "outcome": outcome,
            "text": text,
            "holds_at": holds and holds.text,
            "breaks_at": breaks and breaks.text,
            "low": ends[0],
            "high": ends[1],
            "harder": harder,
            "points": [_point(found[value]) for value in sorted(found)],
            "cautions": tuple(_cautions(find, found, holds, breaks)),
        }
    )


def _point(seen: Seen) -> Point:
    said = seen.broke + seen.held
    return Point(
        text=seen.at.text,
        value=seen.at.value,
        broke=None if seen.broke == seen.held else seen.broke > seen.held,
        share=proportion(seen.broke, said),
        runs=tuple(name for name, _ in seen.runs),
    )


def _cautions(find: Find, found: Found, holds: Quantity | None, breaks: Quantity | None) -> Iterator[str]:
    if _spent(found) >= find.most_runs:
        yield f"it ended after {_spent(found)} runs (most_runs: {find.most_runs}), wider than it could be"
    for end, what in ((holds, "breaks"), (breaks, "holds")):
        seen = found.get(end.value) if end else None
        if end and seen:
            share = proportion(seen.broke, seen.broke + seen.held)
            other = share.high if what == "breaks" else None if share.low is None else 1 - share.low
            if other is not None:
                yield (
                    f"{seen.broke + seen.held} runs at {end.text}: that it {what} there in up to {percent(other)} "
                    "of all runs would look the same (95 % interval)"
                )
