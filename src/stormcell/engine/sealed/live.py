"""A copy of a machine at an instant that somebody may talk to: a live one, whose course is its own from there on.

The runner of the recorded run is held: nothing that it began is undone, and it begins nothing more. All else goes
on, in real time: idle time is waited for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stormcell.engine.sealed.conduct import LONGEST_S, Start
from stormcell.machine.channel import Channel
from stormcell.machine.held import held
from stormcell.machine.sealed.machine import SealedMachine
from stormcell.sandbox import admission
from stormcell.sandbox.link import to_the_end
from stormcell.spec.errors import MachineDied, OutcomeUnknown, SandboxError
from stormcell.spec.home import Home, private_folder


@asynccontextmanager
async def live(start: Start, home: Home | None = None) -> AsyncIterator[Channel]:
    """A channel to the agent of a copy that begins at `start`, whose clock is `real`. The copy is gone at the end.

    Raises MachineDied when it went down meanwhile, and what the host lacked for it.
    """
    root = private_folder((home or Home.current()).instants)
    with held(root, "l-") as place:
        admission.admit_here(start.spec.layout.memory, root)
        machine = await SealedMachine.restore(start.spec, place, start.state)
        course = asyncio.create_task(_course(machine))
        try:
            channel = await machine.channel()
            try:
                yield channel
            finally:
                await channel.close()
        except (OutcomeUnknown, SandboxError) as error:
            if course.done():
                said = machine.console_tail(10)
                raise MachineDied("the machine went down", detail=said) from error
            raise
        finally:
            course.cancel()
            await asyncio.wait({course})
            await to_the_end(_end(machine))


async def _course(machine: SealedMachine) -> None:
    """While it lives. It stands still again only when it was booted again, and then it is another machine."""
    machine.line(json.dumps({"hold": True}))
    try:
        await machine.go(LONGEST_S)
    finally:
        await machine.kill()


async def _end(machine: SealedMachine) -> None:
    try:
        await machine.kill()
    finally:
        await machine.close()
