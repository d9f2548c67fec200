"""A recorded run again, up to one place in it: the machine is saved there, and can be gone on from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.engine.conductor import OnEvent
from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.begin import aside, begun_at
from stormcell.engine.sealed.bundle import Drive, Sealed
from stormcell.engine.sealed.compare import Difference, altered, cut_off, first_difference
from stormcell.engine.sealed.conduct import Start
from stormcell.engine.sealed.instant import Instant
from stormcell.engine.sealed.places import Place, called, events_in, until
from stormcell.engine.sealed.run import recorded_run, recorded_template
from stormcell.spec.errors import OutcomeUnknown, SpecError
from stormcell.spec.files import read_regular
from stormcell.spec.home import Home
from stormcell.template.model import Progress

RULE = "a stop is a place in the run's event log, and every event until there is compared with it"
REMEDY = "take the log from where it was kept, or repeat the whole run with `stormcell run --replay` alone"


def _ignore(_: object) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Stopped:
    """Where it stands. `event` is the last one until there, by its line in events.jsonl from 0, of `events`.

    `moment` is the run's time (s); `difference`: the first event that was not as recorded, which makes it another run.
    `start` is `Instant.start`; `drive` leads here from the template that `about` names.
    """

    folder: Path
    experiment: str
    event: int
    events: int
    last: dict[str, Any]
    moment: float
    difference: Difference | None
    drive: Drive
    about: Sealed
    start: Callable[..., Start]
    digest: Callable[[], str]

    @property
    def text(self) -> str:
        """In a sentence."""
        step = f", in step {self.last['step']}" if self.last.get("step") else ""
        at = f"stopped at {self.moment:.6f} s of the run, behind event {self.event} of {self.events}"
        return f"{at} ({called(self.last)} at {self.last['h']:.6f} s){step}"

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        found = self.difference
        return {
            "replayed": str(self.folder),
            "identical": found is None,
            "difference": None if found is None else {"event": found.event, "was": found.was, "now": found.now},
            "stopped": {
                "seconds": round(self.moment, 9),
                "event": self.event,
                "events": self.events,
                "last": self.last,
                "step": self.last.get("step"),
                "phase": self.last.get("phase"),
            },
        }


@asynccontextmanager
async def stopped_at(
    folder: Path,
    place: Place,
    *,
    home: Home | None = None,
    on_event: OnEvent = _ignore,
    on_build: Callable[[Progress], None] = _ignore,
) -> AsyncIterator[Stopped]:
    """The run of this folder, repeated up to `place`; its files are removed at the end.

    Raises SpecError for a folder or a place that there is not, and as `replay` does; OutcomeUnknown when the repeated
    run ended before.
    """
    home = home or Home.current()
    recorded = bundle.read(folder)
    log = _log(folder, recorded.events_sha256)
    events = events_in(log)
    stop = until(place, events, str(folder))
    _, plan = recorded_run(folder, home)
    template = await recorded_template(folder, recorded, home, on_build)
    drive = Drive(plan=plan, seed=recorded.seed, before=recorded.drive,
                  event=stop.event, seconds=stop.seconds)  # fmt: skip
    with aside(home) as events_of:
        async with AsyncExitStack() as stack:
            async with begun_at(recorded.drive, template, home, on_event) as start:
                instant = Instant(
                    plan, template, events_of, home=home, seed=recorded.seed, until=stop, on_event=on_event, start=start
                )
                await stack.enter_async_context(instant)
            told = instant.told or len(instant.log.events)
            now = read_regular(events_of.path / bundle.EVENTS)
            difference = first_difference(_first(log, told), _first(now, told))
            if not instant.there and (difference is None or cut_off(now, log) is not None):
                raise OutcomeUnknown("the machine was lost before it came there", where=str(folder))
            yield Stopped(
                folder=folder,
                experiment=plan.experiment,
                event=told - 1,
                events=len(events),
                last=instant.log.events[told - 1],
                moment=instant.moment,
                difference=difference,
                drive=drive,
                about=bundle.about(template, recorded.seed),
                start=instant.start,
                digest=instant.digest,
            )


def _log(folder: Path, digest: str) -> bytes:
    """The recorded log, to which a place is counted and each event compared: here its digest cannot stand for it."""
    path = folder / bundle.EVENTS
    log = bundle.read_log(folder)
    if log is None:
        raise SpecError("the run has no events", where=str(path), rule=RULE, remedy=REMEDY)
    try:
        if altered(log, digest):
            raise ValueError("it is not the log that its digest was made of")
        events_in(log)
    except ValueError as error:
        raise SpecError(f"{bundle.EVENTS} is damaged ({error})", where=str(path), rule=RULE, remedy=REMEDY) from error
    return log


def _first(log: bytes, number: int) -> bytes:
    return b"".join(log.splitlines(keepends=True)[:number])
