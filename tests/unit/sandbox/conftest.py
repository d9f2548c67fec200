import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1] + "/lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
if sys.argv[2] == "named":
    open(sys.argv[1] + "/pid", "w").write(open("/proc/self/stat").read())
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def stand_in():
    """Starts processes that hold the lock of a folder as a machine does, and ends them after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def start(folder: Path, *, named: bool = True) -> "subprocess.Popen[bytes]":
        mode = "named" if named else "nameless"
        child = subprocess.Popen([sys.executable, "-c", STAND_IN, str(folder), mode], stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in children:
        assert child.stdout is not None
        child.stdout.close()
        child.kill()
        child.wait()
