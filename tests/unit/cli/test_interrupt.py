"""Ctrl-C, once and again, in a process of its own."""

import signal
import subprocess
import sys

import pytest

HOLDING = """
import asyncio, sys
from stormcell.cli.interrupt import ended_once

async def work():
    try:
        print("holds", flush=True)
        await asyncio.sleep(600)
    finally:
        print("releases", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("released", flush=True)

try:
    ended_once(work())
except KeyboardInterrupt:
    print("known", flush=True)
    sys.stdin.readline()
    print("told", flush=True)

class Late:
    def __del__(self):
        import os, signal
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)

sys.late = Late()
"""


@pytest.mark.parametrize("again", [0, 1, 5])
def test_what_was_begun_is_released_and_told_however_often_it_is_pressed(again):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "holds\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "releases\n"
        for _ in range(again):
            child.send_signal(signal.SIGINT)
            assert child.stderr.readline().startswith("interrupted already")
        child.stdin.write("\n")
        child.stdin.flush()
        assert [child.stdout.readline() for _ in range(2)] == ["released\n", "known\n"]
        for number in (signal.SIGINT, signal.SIGTERM):
            child.send_signal(number)
        said, errors = child.communicate("\n", timeout=60)
    finally:
        child.kill()
    assert (child.returncode, said, errors) == (0, "told\n", "")


@pytest.mark.parametrize(
    ("work", "said"),
    [("return 'answer'", "answer"), ("raise ValueError('wrong')", "ValueError wrong")],
)
def test_a_work_that_comes_to_its_end_answers_or_raises(work, said):
    script = (
        "from stormcell.cli.interrupt import ended_once\n"
        f"async def work():\n    {work}\n"
        "try: print(ended_once(work()))\nexcept ValueError as error: print('ValueError', error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == (f"{said}\n", "")
