"""Waits until the host has room for another machine, in concert with other workers, campaigns and pools."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator

from stormcell.engine.campaigns.means import Need, decide, look
from stormcell.engine.campaigns.promises import Promises
from stormcell.sandbox import admission
from stormcell.sandbox.api import Sandbox
from stormcell.spec.errors import HostError, NoSpace
from stormcell.spec.home import Home, private_folder

LOOK_S = 0.5
MAY_FIT_LATER = (HostError, NoSpace)
"""What admission raises; their subclasses say that something else is lacking."""


class Room:
    """One process's. `patience` in seconds; `say` is told once when a wait begins."""

    def __init__(self, patience: float, say: Callable[[str], None]) -> None:
        self._patience = patience
        self._say = say
        self._home = Home.current()
        self._promises = Promises(self._home)
        self._alive: dict[str, tuple[str, Sandbox]] = {}

    def make(self, template_memory: int, create: Callable[[], Sandbox]) -> Sandbox:
        """What `create` makes, once there is room. `template_memory` in bytes. Raises HostError after the patience."""
        need = Need(max(admission.MEMORY_OF_ONE, template_memory // 4))
        deadline = time.monotonic() + self._patience
        while True:
            name = self._await(need, deadline)
            try:
                sandbox = create()
            except MAY_FIT_LATER as error:
                self._forget(name)
                if type(error) not in MAY_FIT_LATER or "not enough" not in error.what or time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)
            except BaseException:
                self._forget(name)
                raise
            else:
                self._alive[sandbox.id] = (name, sandbox)
                return sandbox

    @contextlib.contextmanager
    def promised(self) -> Iterator[None]:
        """Room for one machine that somebody else makes within the block."""
        name = self._await(Need(admission.MEMORY_OF_ONE), time.monotonic() + self._patience)
        try:
            yield
        finally:
            self._forget(name)

    def gone(self, sandbox: Sandbox) -> None:
        """It was killed."""
        if sandbox.id in self._alive:
            self._forget(self._alive.pop(sandbox.id)[0])

    def _forget(self, name: str) -> None:
        self._promises.forget(name)
        self._promises.tell()

    def _await(self, need: Need, deadline: float) -> str:
        """The name of a promise."""
        folder = private_folder(self._home.sandboxes)
        told = False
        while True:
            for name, sandbox in self._alive.values():
                self._promises.used(name, Need(sandbox.memory_pss(), 0))
            with self._promises.settled() as owed:
                answer = decide(need, owed, look(folder))
                if answer.decision == "go":
                    name = secrets.token_hex(4)
                    self._promises.promise(name, need)
                    return name
            if answer.decision == "never" or time.monotonic() > deadline:
                raise HostError(
                    f"there is no room for another machine: {answer.why}",
                    rule=f"a test waits {self._patience:g} s for it (--stormcell-wait)",
                    remedy="fewer workers, or fewer machines kept by fixtures of modules",
                )
            if not told:
                self._say(f"waiting for room, {answer.why}")
                told = True
            time.sleep(LOOK_S)
