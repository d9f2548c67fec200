"""What ends the command line early never looks like a verdict: 0 is `survived`, 1 is `failed`."""

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from stormcell.cli.main import main; main()"]
BROKEN = """
import stormcell.cli.schema, click
@click.command()
def broken(): raise KeyError("inside")
stormcell.cli.schema.schema = broken
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


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("faults", 0), ("judge /nowhere", 2)])
def test_closed_streams_change_nothing(arguments, code, closed):
    script = f'exec "$0" "$@" {arguments} {closed}'
    ended = subprocess.run(["/bin/sh", "-c", script, *COMMAND], capture_output=True, timeout=60, check=False)
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


def test_a_defect_is_one_message_and_unknown():
    ended = subprocess.run([sys.executable, "-c", BROKEN, "schema"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4
    assert ended.stderr.startswith("error: a defect of stormcell: KeyError: 'inside'\n  remedy: please report it")
    assert "Traceback" not in ended.stderr
