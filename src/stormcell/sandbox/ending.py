"""The end of a sandbox, with evidence."""

from __future__ import annotations

import asyncio

from stormcell.sandbox import layers, lease
from stormcell.sandbox.evidence import FilesGone, KillEvidence, ProcessGone, already_gone, remove_files
from stormcell.sandbox.link import Link
from stormcell.sandbox.record import ID
from stormcell.sandbox.removal import remove
from stormcell.spec.errors import SandboxNotFound
from stormcell.spec.home import Home


async def end(link: Link, reason: str) -> KillEvidence:
    """Claim the lease, so that no work begins any more; see the process dead; remove the files; see them gone.

    Raises MachineError when the process does not die: then its files stay, for they name it.
    """
    folder = link.folder
    if not folder.exists():
        link.gone = reason
        await link.let_go()
        return already_gone(folder.name, folder)
    lease.claim(folder, reason, only_overdue=False)
    link.gone = reason
    if link.closed:
        return await end_by_id(folder.name, reason)
    exit_ = await link.machine.kill()
    link.last_console = link.machine.console_tail(200)
    await link.let_go()
    seen = ProcessGone(exit_.pid, exit_.start_time, exit_.process_gone, exit_.status, exit_.reason, exit_.waited_s)
    if not seen.gone:
        return KillEvidence(folder.name, reason, (seen,), FilesGone(str(folder), False, 0, 0))
    evidence = KillEvidence(folder.name, reason, (seen,), await asyncio.to_thread(remove_files, folder))
    await asyncio.to_thread(layers.collect, folder.parents[1])
    return evidence


async def end_by_id(name: str, reason: str) -> KillEvidence:
    """For a sandbox that this process holds no link to; also for one whose machine cannot be attached.

    Raises SandboxNotFound for what cannot be an id; one that was there and is gone is `already_gone`.
    """
    if not ID.match(name):
        raise SandboxNotFound(f"'{name}' is no sandbox id", rule="an id looks like sc-0a1b2c3d")
    evidence = await asyncio.to_thread(remove, Home.current().sandboxes / name, reason)
    assert evidence is not None, "only an overdue-only removal may be refused"
    return evidence
