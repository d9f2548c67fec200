"""Gates: real pipes, written to as QEMU writes to them."""

import asyncio
import os
import select
import threading

import pytest

from stormcell.guest.sealed.stop import GATES
from stormcell.machine.sealed.argv import BELL_NAME, GATE_NAMES
from stormcell.machine.sealed.gates import Gates
from tests.unit.guest.agent_process import asynchronous


class Guest:
    """The other end: blocks in a write, as an output instruction does."""

    def __init__(self, folder):
        self.fds = {name: os.open(folder / name, os.O_WRONLY) for name in (BELL_NAME, *GATE_NAMES)}

    def write(self, name):
        assert os.write(self.fds[name], b"\x01") == 1

    def takes(self, name):
        """Whether a write would not block."""
        return bool(select.select([], [self.fds[name]], [], 0)[1])

    def close(self):
        for fd in self.fds.values():
            os.close(fd)


@pytest.fixture
def guest(tmp_path):
    made = []

    def enter():
        made.append(Guest(tmp_path))
        return made[0]

    yield enter
    for each in made:
        each.close()


@asynchronous
async def test_both_are_shut_when_made_and_open_one_by_one(tmp_path, guest):
    gates = Gates(tmp_path)
    there = guest()
    assert [there.takes(name) for name in GATE_NAMES] == [False, False]
    gates.open(GATES[0])
    assert [there.takes(name) for name in GATE_NAMES] == [True, False]
    there.write(GATE_NAMES[0])
    gates.shut(GATES[0])
    assert [there.takes(name) for name in GATE_NAMES] == [False, False]
    gates.close()


@asynchronous
async def test_who_stands_at_one_goes_on_when_it_is_opened(tmp_path, guest):
    gates = Gates(tmp_path)
    there = guest()
    passed = threading.Event()

    def stand():
        there.write(BELL_NAME)
        there.write(GATE_NAMES[1])
        passed.set()

    thread = threading.Thread(target=stand)
    thread.start()
    async with asyncio.timeout(60):
        await gates.rings.wait()
    assert not passed.wait(0.2)
    gates.open(GATES[1])
    assert await asyncio.to_thread(passed.wait, 60)
    thread.join()
    gates.shut(GATES[1])
    assert not there.takes(GATE_NAMES[1]), "what was written at the gate makes no room in it"
    gates.close()


@asynchronous
async def test_nothing_is_left_open_and_a_folder_can_be_used_again(tmp_path):
    def held():
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - links of descriptors

    Gates(tmp_path).close()
    before = held()
    for _ in range(3):
        Gates(tmp_path).close()
    assert held() <= before  # threads of other tests may close what they had
    with pytest.raises(OSError, match="No such file"):
        Gates(tmp_path / "nowhere")
    assert held() <= before
