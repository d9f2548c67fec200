"""The guest's end of a shell: a program on a terminal, keys and sizes in frames."""

import os
import subprocess
import sys
import time

import pytest

from stormcell.guest.terminal import SIZE, TYPED, Frames, resized, typed

PATIENCE = 60.0


def test_frames_come_out_as_they_went_in_however_they_are_cut():
    long = bytes(range(256)) * 600
    data = typed(b"ls\r") + resized(40, 120) + typed(long)
    frames = Frames()
    found = [frame for at in range(0, len(data), 7) for frame in frames.feed(data[at : at + 7])]
    assert found[:2] == [(TYPED, b"ls\r"), (SIZE, b"\0\x28\0\x78")]
    assert b"".join(content for kind, content in found[2:] if kind == TYPED) == long


class Shown:
    """The real subcommand, and what its terminal shows."""

    def __init__(self, *program):
        argv = [sys.executable, "-m", "stormcell.guest", "terminal", "30", "100", *program]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.text = ""

        assert self.process.stdin and self.process.stdout
        self.keys, self.shown = self.process.stdin, self.process.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.keys.close()
        self.shown.close()

    def send(self, frames):
        self.keys.write(frames)
        self.keys.flush()

    def until(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.text:
            piece = os.read(self.shown.fileno(), 65536).decode()
            assert piece and time.monotonic() < end, self.text
            self.text += piece
        self.text = self.text.partition(text)[2]

    def end(self):
        self.keys.close()
        return self.process.wait(PATIENCE)


@pytest.fixture
def shell():
    with Shown("sh", "-i") as shown:
        yield shown


def test_a_shell_has_a_terminal_of_the_size_that_it_is_told(shell):
    shell.send(typed(b"tty && stty size\n"))
    shell.until("/dev/pts/")
    shell.until("30 100")
    shell.send(resized(41, 99) + typed(b"stty size\n"))
    shell.until("41 99")


def test_ctrl_c_ends_the_command_and_not_the_shell(shell):
    shell.send(typed(b"echo be''gun; sleep 1000; echo co''de $?\n"))
    shell.until("begun")
    time.sleep(0.3)  # until sleep is the terminal's foreground group
    shell.send(typed(b"\x03"))
    shell.send(typed(b"echo afterwards $((40 + 2))\n"))
    shell.until("afterwards 42")


def test_ctrl_d_ends_it_with_the_shells_exit_code(shell):
    shell.send(typed(b"(exit 7)\n"))
    shell.until("exit 7")
    shell.send(typed(b"\x04"))
    assert shell.process.wait(PATIENCE) == 7


def test_the_end_of_the_input_hangs_up(shell):
    shell.send(typed(b"echo re''ady\n"))
    shell.until("ready")
    assert shell.end() == 129


def test_a_program_that_is_not_there_is_said():
    with Shown("no-such-program") as shown:
        shown.until("no-such-program: No such file or directory")
        assert shown.process.wait(PATIENCE) == 127


def test_bad_arguments_are_bad_usage():
    argv = [sys.executable, "-m", "stormcell.guest", "terminal", "30"]
    assert subprocess.run(argv, capture_output=True, check=False, timeout=PATIENCE).returncode == 2
