"""Waiting for room, in concert with others that promised theirs."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from stormcell.engine.campaigns.means import Need, look
from stormcell.engine.campaigns.promises import Promises
from stormcell.pytest_plugin.room import Room
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.spec.errors import HostError, MissingTool
from stormcell.spec.home import Home, private_folder


@dataclass
class _Machine:
    id: str = "sc-00000001"

    def memory_pss(self) -> int:
        return 50 << 20


Machine: Any = _Machine
NOBODY = ProcessRef(1, 1, "another boot")
"""Promises of one process are not read back by it from the file."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("STORMCELL_HOME", str(tmp_path))
    return Home.current()


def others_have(home, share: float) -> Promises:
    """Another who promised that much of what is free; other processes may free some more at any time."""
    free = look(private_folder(home.sandboxes)).memory
    promises = Promises(home)
    with promises.settled():
        promises.promise("theirs", Need(int(free * share), 0))
    return promises


def owed(home) -> int:
    promises = Promises(home)
    promises._owner = NOBODY
    with promises.settled() as need:
        return need.memory


def test_it_waits_until_others_let_go_and_says_so_once(home):
    said: list[str] = []
    theirs = others_have(home, 20.0)
    room = Room(60, said.append)
    room._promises._owner = NOBODY
    made: list[object] = []
    thread = threading.Thread(target=lambda: made.append(room.make(0, Machine)))
    thread.start()
    thread.join(1.5)
    assert made == []
    theirs.forget("theirs")
    theirs.tell()
    thread.join(30)
    assert len(made) == 1
    assert len(said) == 1
    assert "waiting for room" in said[0]
    assert "promised to runs under way" in said[0]


def test_what_never_fits_is_told_at_once(home):
    room = Room(60, lambda _: None)
    with pytest.raises(HostError, match="there is no room for another machine: a run needs about"):
        room.make(1 << 60, Machine)


def test_after_its_patience_it_gives_up(home):
    others_have(home, 20.0)
    room = Room(0.1, lambda _: None)
    room._promises._owner = NOBODY
    with pytest.raises(HostError, match="no room for another machine: for memory") as caught:
        room.make(0, Machine)
    assert "--stormcell-wait" in caught.value.rule


def test_a_refused_admission_is_tried_again_and_other_errors_are_not(home):
    room = Room(60, lambda _: None)
    tries: list[int] = []

    def refused_twice() -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise HostError("not enough memory for another sandbox: 3 MiB are available")
        return Machine()

    assert room.make(0, refused_twice).id == "sc-00000001"
    assert len(tries) == 3

    def lacking() -> Any:
        raise MissingTool("qemu is not installed")

    with pytest.raises(MissingTool):
        room.make(0, lacking)


def test_a_promise_ends_with_its_machine(home):
    room = Room(60, lambda _: None)
    machine = room.make(400 << 20, Machine)
    assert owed(home) == 100 << 20
    room.gone(machine)
    assert owed(home) == 0
    with pytest.raises(ZeroDivisionError), room.promised():
        raise ZeroDivisionError
    assert owed(home) == 0
