"""One sealed run of two guest seconds, stopped, looked into, gone on from with another fault, and kept."""

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stormcell.engine.sealed.another import document_of, experiment_of, go_on
from stormcell.engine.sealed.live import live
from stormcell.engine.sealed.places import Place
from stormcell.engine.sealed.run import Replay, SealedOutcome, replay, run_sealed
from stormcell.engine.sealed.stopped import Stopped, stopped_at
from stormcell.machine.commands import start_command
from stormcell.machine.process import read_identity
from stormcell.sandbox import snapshots
from stormcell.spec.errors import OutcomeUnknown
from stormcell.spec.home import Home
from stormcell.template.sealed import build_sealed
from stormcell.template.store import find

PATIENCE = 120.0
STORMCELL = [sys.executable, "-m", "stormcell"]
COUNTER = {
    "name": "counter",
    "template": "base",
    "load": [{"name": "count", "run": "i=0; while :; do i=$((i+1)); echo $i > /root/count; sleep 0.1; done"}],
    "steady_state": [
        {
            "name": "pings",
            "command": {"run": "ping -c 2 -i 0.02 -W 1 -q 127.0.0.1; true", "number": "transmitted, ([0-9]+) received"},
            "expect": {"exit_code": 0},
        }
    ],
    "fault": {"kind": "net.loss", "device": "lo", "loss": "100%"},
    "hold": "1s",
}
HELD = "ps -eo stat,args | grep -c '^T.*guest.pyz'"


@pytest.fixture(scope="module")
def home(own_home: Home) -> Home:
    asyncio.run(build_sealed(find("base", own_home), home=own_home))
    return own_home


@pytest.fixture(scope="module")
def recorded(home: Home) -> SealedOutcome:
    outcome = asyncio.run(run_sealed(COUNTER, seed=3, home=home))
    assert outcome.verdict == "survived", outcome.result.reasons
    return outcome


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def in_force(recorded: SealedOutcome) -> int:
    """The number of the event that says so."""
    return next(number for number, event in enumerate(events(recorded.folder)) if event["event"] == "applied")


def bits(stopped: Stopped) -> tuple[str, bytes, float, int]:
    """Of the machine there: memory, devices, and the guest's moment."""
    assert stopped.difference is None, stopped.difference.text
    return stopped.digest(), stopped.start().state.read_bytes(), stopped.moment, stopped.event


async def run_there(stopped: Stopped, text: str) -> str:
    async with live(stopped.start(clock="real")) as channel:
        command = await start_command(channel, None, text)
        said = b"".join([piece async for piece in command.stdout])
        assert (await command.wait()).exit_code == 0
        return said.decode()


def test_a_stop_is_the_same_instant_every_time_and_a_command_there_sees_its_state(home, recorded):
    place = Place(event=in_force(recorded))
    script = f"cat /root/count; tc qdisc show; {HELD}; sleep 0.5; tc qdisc show"

    async def all_of_it() -> None:
        async with stopped_at(recorded.folder, place, home=home) as one:
            assert (one.event, one.last["event"]) == (place.event, "applied")
            first = bits(one)
            said = (await run_there(one, script)).splitlines()
            assert bits(one) == first, "a live copy changes nothing of what it is a copy of"
        count = next(int(line) for line in said if line.isdigit())
        assert 2 <= count <= 20, "some 0.1 s of the run each"
        assert sum("loss 100%" in line for line in said) == 2, "what is in force stays so"
        assert "2" in said, "the runner and its watchdog stand still"
        async with stopped_at(recorded.folder, place, home=home) as other:
            assert bits(other) == first
        times = []
        for _ in range(2):
            async with stopped_at(recorded.folder, Place(seconds=1.0), home=home) as there:
                assert 1.0 <= there.moment < 1.11
                times.append(bits(there))
        assert times[0] == times[1] != first

    asyncio.run(all_of_it())


def test_a_machine_that_is_lost_on_the_way_makes_no_difference_of_the_run(home, recorded):
    killed: list[int] = []

    def kill_at_the_act(event: Mapping[str, Any]) -> None:
        if event["event"] == "applied":
            found = [read_identity(folder) for folder in home.instants.glob("i-*/m")]  # others may be at work there
            killed.extend(one.pid for one in found if one and f"PPid:\t{os.getpid()}\n" in status(one.pid))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    async def story() -> None:
        place = Place(event=len(events(recorded.folder)) - 2)
        async with stopped_at(recorded.folder, place, home=home, on_event=kill_at_the_act):
            raise AssertionError("it came there")

    with pytest.raises(OutcomeUnknown, match="lost before it came there"):
        asyncio.run(story())
    assert len(killed) == 1


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def test_another_fault_from_there_is_a_run_of_its_own_that_is_repeated_to_the_byte(home, recorded):
    async def all_of_it() -> tuple[SealedOutcome, Replay, str]:
        loaded = experiment_of(recorded.folder, document_of("kind=net.delay,device=lo,delay=20ms"))
        async with stopped_at(recorded.folder, Place(event=in_force(recorded) + 1), home=home) as stopped:
            outcome = await go_on(stopped, loaded, home=home)
        async with stopped_at(outcome.folder, Place(event=in_force(outcome)), home=home) as there:
            assert there.difference is None, there.difference.text
            held = await run_there(there, HELD)
        return outcome, await replay(outcome.folder, home=home), held

    outcome, again, held = asyncio.run(all_of_it())
    assert held == "3\n", "a moment of that run is one like any other: there is its `join`, too"
    assert again.difference is None, again.difference.text
    assert outcome.verdict == "survived", outcome.result.reasons
    assert handed_over(outcome.folder) == (["fault"], False)
    assert [event["state"] for event in events(outcome.folder) if event["event"] == "load"] == ["goes_on", "stopped"]
    assert received(outcome.folder) == [2, 2], "the recorded loss is over"


def handed_over(folder: Path) -> tuple[list[str], bool]:
    """What was undone, and whether anything was kept."""
    event = next(event for event in events(folder) if event["event"] == "handed_over")
    return event["undone"], event["kept"]


def received(folder: Path) -> list[int]:
    """How many packets of two, by each probe."""
    return [int(event["metrics"]["number"]) for event in events(folder) if event["event"] == "probe"]


def test_the_recorded_run_is_repeated_as_if_nothing_had_been(home, recorded):
    again = asyncio.run(replay(recorded.folder, home=home))
    assert again.difference is None, again.difference.text


@pytest.fixture(scope="module")
def command(home: Home) -> dict[str, str]:
    """For subprocesses of the same home."""
    return {**os.environ, "STORMCELL_HOME": str(home.state.parent), "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def kept(home: Home, recorded: SealedOutcome, command: dict[str, str]) -> Iterator[str]:
    place = ["--stop-at", f"event:{in_force(recorded)}", "--snapshot", "in-force", "--json"]
    done = asked(command, "run", "--replay", str(recorded.folder), *place)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["identical"] and told["snapshot"]["stopped"]["event"] == in_force(recorded)
    yield "in-force"
    removed = asked(command, "snapshot", "rm", "in-force")
    assert removed.returncode == 0, removed.stderr
    assert not snapshots.names(home)


def asked(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    argv = [*STORMCELL, *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=280, check=False)


def test_a_kept_moment_is_listed_and_a_command_in_it_ends_with_its_exit_code(command, kept):
    (row,) = json.loads(asked(command, "snapshot", "list", "--json").stdout)
    assert (row["name"], row["kind"], row["state"]) == (kept, "sealed", "ready")
    assert row["size"] > 1 << 20
    assert asked(command, "snapshot", "show", kept, "--verify").returncode == 0
    done = asked(command, "run", "--from", kept, "-c", "tc qdisc show dev lo; echo said >&2; exit 7")
    assert done.returncode == 7, done.stderr
    assert "qdisc noqueue" in done.stdout and "stopped at" not in done.stdout
    assert "said" in done.stderr
    refused = asked(command, "sandbox", "create", "--snapshot", kept)
    assert refused.returncode != 0 and f"stormcell run --from {kept}" in refused.stderr


def test_another_fault_beside_the_one_that_is_kept(command, kept):
    done = asked(command, "run", "--from", kept, "--fault", "kind=clock.jump,by=1h", "--keep-fault", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)["outcome"]
    folder = Path(outcome["folder"])
    assert (outcome["verdict"], handed_over(folder)) == ("survived", ([], True))
    assert received(folder) == [0, 0], "the recorded loss is in force"


def test_a_shell_in_it_is_a_terminal_whose_ctrl_c_is_the_commands(home, command, kept):
    pid, terminal = pty.fork()
    if pid == 0:
        argv = [*STORMCELL, "run", "--from", kept, "--shell"]
        os.execvpe(argv[0], argv, {**command, "NO_COLOR": "1"})
    try:
        shown = Shown(terminal)
        shown.until("s:~# ")
        shown.type("echo si''ze; stty size; sleep 1000; echo co''de $?\r")
        shown.until("size")
        time.sleep(0.5)  # until sleep is the terminal's foreground group
        shown.type("\x03")
        shown.until("s:~# ")
        shown.type("echo $((40 + 2)) mi''ne\r")
        shown.until("42 mine")
        shown.until("s:~# ")
        shown.type("\x04")
        shown.rest()
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not [*home.instants.glob("l-*")]


class Shown:
    """What a terminal shows."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._text = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self._text:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, self._text
            self._text += os.read(self._terminal, 65536).decode(errors="replace")
        self._text = self._text.partition(text)[2]

    def rest(self) -> None:
        end = time.monotonic() + PATIENCE
        try:
            while select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))[0]:
                os.read(self._terminal, 65536)
        except OSError:  # EIO: the other end is gone
            return
        raise AssertionError("it did not end")
