"""A sealed machine goes with who made it, also with one that had gone before it could be told."""

import os
import subprocess

import pytest

from stormcell.machine.sealed.machine import DIES_WITH_US


@pytest.mark.parametrize(("parent", "said"), [(os.getpid(), b"it runs\n"), (1, b"")])
def test_a_program_does_not_begin_without_its_parent(parent, said):
    done = subprocess.run([*DIES_WITH_US, str(parent), "echo", "it runs"], capture_output=True, check=False)
    assert (done.stdout, done.stderr, done.returncode == 0) == (said, b"", bool(said))
