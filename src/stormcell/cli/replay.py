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
    """Exit code 0 when the event logs are equal, 1 when they are not, 4 when this or the recorded run was cut off."""
    try:
        found = ended_once(_replay(folder))
    except KeyboardInterrupt:
        say("interrupted; what had been started was released")
        return 4
    if as_json:
        emit_json(found.as_dict())
    else:
        _show(found)
    if found.cut_off is not None:
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
    outcome, difference = found.outcome, found.difference
    assert outcome.sealed is not None
    times = f"{outcome.sealed.guest_seconds:.3f} s of the guest in {outcome.sealed.host_seconds:.1f} s"
    if difference is None:
        digest = outcome.sealed.events_sha256[:16]
        click.echo(safe(f"identical: every event, byte for byte (sha256 {digest}...); {outcome.verdict}; {times}"))
    elif found.cut_off is not None:
        same = f"all {found.cut_off} events that it has are the same here, byte for byte"
        known = same if found.cut_off else "it has no events"
        click.echo(safe(f"CUT OFF: the recorded run never came to its end; {known}; {outcome.verdict}; {times}"))
        click.echo(safe(f"the new run is kept in {outcome.folder}"))
    else:
        click.echo(safe(f"DIFFERENT: {difference.text}; {outcome.verdict}; {times}"))
        click.echo(safe(f"the new run is kept in {outcome.folder}"))
