"""The command line in a process that kills itself with SIGKILL at one step: `python killed_at.py STEP ARGUMENTS...`.

STEP is `before:NAME` or `after:NAME`; NAME a line of the ledger (claim, finish), an event of a run (create, applied),
a file (result.json, spec.json), or a branch's folder (branches/control).
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from stormcell.cli.main import main
from stormcell.engine.campaigns.folder import CampaignFolder
from stormcell.engine.folder import RunFolder
from stormcell.ledger.journal import Journal


def die_at(step: str, owner: Any, method: str, name_of: Callable[..., str]) -> None:
    """Wrap a method, so that the process dies right before or after it does its work."""
    when, _, wanted = step.partition(":")
    real = getattr(owner, method)

    def wrapped(self: Any, *args: Any) -> Any:
        hit = name_of(*args) == wanted
        if hit and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, *args)
        if hit:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, wrapped)


if __name__ == "__main__":
    asked = sys.argv.pop(1)
    die_at(asked, Journal, "_append", lambda _, said: str(said["do"]))
    die_at(asked, RunFolder, "event", lambda event: str(event["event"]))
    die_at(asked, RunFolder, "below", lambda name: name)
    die_at(asked, RunFolder, "write", lambda name, _: name)
    die_at(asked, CampaignFolder, "_write", lambda name, _: f"campaign/{name}")
    main()
