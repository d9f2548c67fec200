"""Where a run begins: at its template, or at an instant that other plans lead to, one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from stormcell.engine.conductor import OnEvent
from stormcell.engine.folder import RunFolder
from stormcell.engine.sealed.bundle import Drive
from stormcell.engine.sealed.conduct import Start, Until
from stormcell.engine.sealed.instant import Instant
from stormcell.machine.held import held
from stormcell.spec.errors import OutcomeUnknown
from stormcell.spec.home import Home, private_folder
from stormcell.template.sealed import SealedTemplate


def _ignore(_: object) -> None:
    """Nobody watches."""


ASIDE = ".drive-"
"""Begins its name."""


@asynccontextmanager
async def begun_at(
    drive: Drive | None, template: SealedTemplate, home: Home, on_event: OnEvent = _ignore
) -> AsyncIterator[Start]:
    """Drive there, and be there until the end. `on_event` gets the events of the drive.

    Raises OutcomeUnknown when the drive did not come there, and what the host lacked for it.
    """
    if drive is None:
        yield Start(template.spec("sealed"), template.state)
        return
    until = None if drive.event is None and drive.seconds is None else Until(drive.event, drive.seconds)
    with aside(home) as log:
        async with AsyncExitStack() as stack:
            async with begun_at(drive.before, template, home, on_event) as start:
                instant = Instant(
                    drive.plan,
                    template,
                    log,
                    home=home,
                    seed=drive.seed,
                    until=until,
                    on_event=on_event,
                    start=start,
                )
                await stack.enter_async_context(instant)
            if not instant.there:
                lost = next((event["text"] for event in instant.log.events if event["event"] == "lost"), "")
                raise OutcomeUnknown(f"the run did not come to its beginning: {lost or 'its drive ended early'}")
            yield instant.start(hand_over=drive.hand_over)


@contextmanager
def aside(home: Home) -> Iterator[RunFolder]:
    """A folder for the events of a drive, beside the runs and none of them; `stormcell gc` finds one that was left."""
    with held(private_folder(home.runs), ASIDE) as path:
        yield RunFolder(path)
