import os
import subprocess
import sys
import time

import pytest

from stormcell.machine.held import MAKING, MAKING_S, held, left, note_of

HOLDER = """
import sys, time
from pathlib import Path
from stormcell.machine.held import held
with held(Path(sys.argv[1]), "i-", "what it is of") as path:
    print(path, flush=True)
    time.sleep(600)
"""


def test_a_folder_is_its_holder_s_until_the_end(tmp_path):
    with held(tmp_path, "i-", "note") as path:
        assert path.name.startswith("i-") and path.parent == tmp_path
        assert note_of(path) == "note" and not left(path)
    assert list(tmp_path.iterdir()) == []


def test_it_is_left_when_its_holder_was_killed(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
    (path,) = tmp_path.iterdir()
    assert not left(path)
    child.kill()
    child.wait()
    assert left(path) and note_of(path) == "what it is of"


@pytest.mark.parametrize("name", ["i-abc", f"{MAKING}i-abc"])
def test_one_that_is_just_being_made_is_not_left(tmp_path, name):
    path = tmp_path / name
    path.mkdir()
    assert not left(path)
    long_ago = time.time() - 2 * MAKING_S
    os.utime(path, (long_ago, long_ago))
    assert left(path)


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), held(tmp_path, "m-"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_what_is_gone_has_no_note(tmp_path):
    assert note_of(tmp_path / "nothing") == ""
