"""`stormcell run --replay FOLDER`: a sealed run again, and whether it came out as the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormcell.cli.interrupt import ended_once
from stormcell.cli.output import emit_json, safe, say

if TYPE_CHECKING:
    from stormcell.engine.sealed.run import Replay


def replay_run(folder: Path, as_json: bool) -> int:
    """Exit code 0 when the event logs are equal, 1 when they are not, 4 when either run never came to its end."""
    try:
        found = ended_once(_replay(folder))
    except KeyboardInterrupt:
        say("interrupted; what had been started was released")
        return 4
    if as_json:
        emit_json(found.as_dict())
    else:
        _show(found)
    if found.compared.cut_off is not None or found.compared.lost is not None:
        return 4
    return 0 if found.difference is None else 1


async def _replay(folder: Path) -> Replay:
    from stormcell.cli.progress import Watcher
    from stormcell.engine.sealed.run import replay

    with Watcher(total=1) as watcher:
        line = watcher.begin(1, f"replay of {folder.name}")
        try:
            found = await replay(folder, on_event=line.event, on_build=watcher.build)
        except BaseException:
            line.close()
            raise
        line.done(found.outcome)
        return found


def _show(found: Replay) -> None:
    outcome, compared = found.outcome, found.compared
    assert outcome.sealed is not None
    times = f"{outcome.sealed.guest_seconds:.3f} s of the guest in {outcome.sealed.host_seconds:.1f} s"
    digest = f"(sha256 {outcome.sealed.events_sha256[:16]}...)"
    if compared.damaged:
        say("the recorded event log is damaged: it is not what its digest was made of; that is compared instead")
    if compared.difference is None:
        click.echo(safe(f"identical: every event, byte for byte {digest}; {outcome.verdict}; {times}"))
        return
    if compared.lost is not None:
        why = next((reason.text for reason in outcome.result.reasons), str(outcome.verdict))
        click.echo(safe(f"NOT COMPARED: the new run was lost here ({why}); {_alike(compared.lost)}; {times}"))
    elif compared.cut_off is not None:
        known = _alike(compared.cut_off)
        click.echo(safe(f"CUT OFF: the recorded run never came to its end; {known}; {outcome.verdict}; {times}"))
    else:
        click.echo(safe(f"DIFFERENT: {compared.difference.text}; {outcome.verdict}; {times}"))
    click.echo(safe(f"the new run is kept in {outcome.folder}"))


def _alike(events: int) -> str:
    return f"all {events} events that it has are the same in both, byte for byte" if events else "it has no events"
