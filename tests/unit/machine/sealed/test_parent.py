"""A sealed machine goes with who made it, also with one that had gone before it could be told."""

import os
import subprocess

from stormcell.machine.sealed.machine import DIES_WITH_US


def begun(parent: int) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*DIES_WITH_US, str(parent), "echo", "it runs"], capture_output=True, check=False)


def test_a_program_does_not_begin_without_its_parent():
    mine, gone = begun(os.getpid()), begun(1)
    assert (mine.stdout, mine.stderr, mine.returncode) == (b"it runs\n", b"", 0)
    assert (gone.stdout, gone.stderr) == (b"", b"") and gone.returncode != 0
