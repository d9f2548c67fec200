"""`run --stop-at`: what cannot be is refused before anything is started, in one sentence."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from stormcell.cli.main import main; main()", "run"]


def asked(*arguments):
    ended = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


@pytest.fixture
def folder(tmp_path):
    """Enough of a sealed run for its places to be looked at."""
    events = [{"h": 0.0, "event": "create", "on": "host"}, {"h": 2.5, "event": "end", "on": "guest"}]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    sealed = {"seed": 1, "template": "t", "snapshot": "s", "inputs": {}}
    (tmp_path / "sealed.json").write_text(json.dumps(sealed))
    return str(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shell"], "--shell goes with --stop-at PLACE or --from NAME"),
        (["--replay", "f", "-c", "true"], "--command TEXT goes with --stop-at"),
        (["x.yaml", "--fault", "kind=net.loss"], "--fault FAULT goes with --stop-at"),
        (["--stop-at", "1s"], "goes with --replay FOLDER"),
        (["--replay", "f", "--from", "n", "--shell"], "stands without --replay"),
        (["--from", "n", "--snapshot", "m"], "it is kept already"),
        (["--from", "Not a name"], "cannot name a snapshot"),
        (["--from", "no-such-name", "-c", "true"], "there is no snapshot 'no-such-name'"),
        (["--from", "n", "--sealed"], "--from NAME stands alone"),
        (["--replay", "f", "--stop-at", "1s", "--keep-fault"], "--keep-fault goes with --with FILE or --fault"),
        (["--replay", "f", "--stop-at", "1s", "--shell", "-c", "true"], "--shell or --command TEXT, not both"),
        (["--replay", "f", "--stop-at", "1s", "--with", "f", "--snapshot", "m"], "--with FILE or --snapshot NAME"),
        (["--replay", "f", "--stop-at", "1"], "no place in a run"),
        (["--replay", "f", "--stop-at", "1s", "--shell"], "needs a terminal"),
        (["--replay", "f", "--stop-at", "1s", "x.yaml"], "stands alone"),
        (["--replay", "no-such-folder", "--stop-at", "1s"], "no folder of a sealed run"),
    ],
)
def test_options_that_do_not_go_together(arguments, said):
    code, told = asked(*arguments)
    assert (code, said in told) == (2, True), told


@pytest.mark.parametrize(
    ("place", "said"),
    [("3s", "at 2.500 s, before 3 s"), ("event:2", "its events are 0 to 1"), ("event:0", "was the host's")],
)
def test_a_place_that_the_run_does_not_have(folder, place, said):
    code, told = asked("--replay", folder, "--stop-at", place)
    assert (code, said in told) == (2, True), told


def test_damaged_events_are_said(folder):
    with (Path(folder) / "events.jsonl").open("a") as file:
        file.write("{torn\n")
    code, told = asked("--replay", folder, "--stop-at", "1s")
    assert (code, "events.jsonl is damaged (" in told) == (2, True), told


def test_events_of_another_digest_are_not_compared_with(folder):
    about = json.loads((Path(folder) / "sealed.json").read_text())
    events = (Path(folder) / "events.jsonl").read_bytes()
    (Path(folder) / "sealed.json").write_text(json.dumps({**about, "events_sha256": sha256(events).hexdigest()}))
    code, told = asked("--replay", folder, "--stop-at", "3s")
    assert (code, "at 2.500 s, before 3 s" in told) == (2, True), told
    (Path(folder) / "events.jsonl").write_bytes(events.replace(b"2.5", b"9.5"))
    code, told = asked("--replay", folder, "--stop-at", "3s")
    assert (code, "not the log that its digest was made of" in told) == (2, True), told
    assert "repeat the whole run" in told


def test_a_run_without_its_events_has_no_places(folder):
    (Path(folder) / "events.jsonl").unlink()
    code, told = asked("--replay", folder, "--stop-at", "1s")
    assert (code, "the run has no events" in told) == (2, True), told
