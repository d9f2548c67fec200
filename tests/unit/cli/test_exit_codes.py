"""What ends the command line early never looks like a verdict: 0 is `survived`, 1 is `failed`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from stormcell.cli.main import main; main()"]
STARTED = """
import stormcell.cli.schema, click, signal, time
@click.command()
def other(): BODY
stormcell.cli.schema.schema = other
from stormcell.cli.main import main
main()
"""


@pytest.mark.parametrize("arguments", [["faults"], ["schema"], ["faults", "net.delay"], ["doctor", "--help"]])
def test_a_reader_that_left_is_no_verdict(arguments):
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run([*COMMAND, *arguments], stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [["faults"], ["faults", "--json"], ["schema"]])
def test_an_output_that_takes_nothing_is_one_message(arguments):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (ended.returncode, len(ended.stderr.splitlines())) == (3, 2), ended.stderr
    assert ended.stderr.startswith("error: No space left on device")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("faults", 0), ("judge /nowhere", 2)])
def test_closed_streams_change_nothing(arguments, code, closed):
    script = f'exec "$0" "$@" {arguments} {closed}'
    ended = subprocess.run(["/bin/sh", "-c", script, *COMMAND], capture_output=True, timeout=60, check=False)
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


def test_a_defect_is_one_message_and_unknown():
    script = STARTED.replace("BODY", "raise KeyError('inside')")
    ended = subprocess.run([sys.executable, "-c", script, "schema"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4
    assert ended.stderr.startswith("error: a defect of stormcell: KeyError: 'inside'\n  remedy: please report it")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_command_stops_as_at_ctrl_c_also_in_the_background(number):
    """A shell starts background jobs with SIGINT ignored; a SIGTERM that became a SIGINT was then lost."""
    waiting = STARTED.replace("BODY", "click.echo('begun'); time.sleep(600)")
    child = subprocess.Popen(
        [sys.executable, "-c", f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{waiting}", "schema"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "begun\n"
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, said.strip()) == (130, "interrupted")


def test_the_package_is_the_command_too():
    ended = subprocess.run([sys.executable, "-m", "stormcell", "--version"], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout[:18]) == (0, "stormcell, version")


def test_nohup_is_heeded():
    waiting = STARTED.replace("BODY", "signal.raise_signal(signal.SIGHUP); click.echo('on')")
    script = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{waiting}"
    ended = subprocess.run([sys.executable, "-c", script, "schema"], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "on\n")
