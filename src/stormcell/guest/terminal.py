"""`terminal ROWS COLUMNS PROGRAM...`: a program on a terminal of its own, for a person elsewhere.

Standard input is frames: kind (1 byte) and length (2, big endian), then what is typed (`TYPED`), or rows and columns (2
bytes each, `SIZE`). Standard output is what the terminal shows. The end of the input hangs up.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import termios

TYPED, SIZE = 0, 1
_FRAME = struct.Struct(">BH")
_SIZE = struct.Struct(">HH")
_PIECE = 65536
_MOST = 0xFFFF


def typed(data: bytes) -> bytes:
    """Frames of what was typed."""
    pieces = (data[at : at + _MOST] for at in range(0, len(data), _MOST))
    return b"".join(_FRAME.pack(TYPED, len(piece)) + piece for piece in pieces)


def resized(rows: int, columns: int) -> bytes:
    """The frame that tells the terminal's size."""
    return _FRAME.pack(SIZE, _SIZE.size) + _SIZE.pack(rows, columns)


class Frames:
    """Takes bytes, gives whole frames."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Those that are whole now."""
        self._pending += data
        found = []
        while len(self._pending) >= _FRAME.size:
            kind, length = _FRAME.unpack_from(self._pending)
            if len(self._pending) < _FRAME.size + length:
                break
            found.append((kind, self._pending[_FRAME.size : _FRAME.size + length]))
            self._pending = self._pending[_FRAME.size + length :]
        return found


class Terminal:
    """The machine's end of it. `serve` returns when the program has ended."""

    def __init__(self, rows: int, columns: int, program: list[str]) -> None:
        """Raises OSError."""
        self._ours, theirs = os.openpty()
        self._resize(rows, columns)
        self._frames = Frames()
        self._keys = b""
        self._pid = os.fork()
        if self._pid == 0:
            _become(program, theirs)
        os.close(theirs)
        os.set_blocking(self._ours, False)

    def serve(self) -> int:
        """The exit code to end with."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while True:
            poll.register(self._ours, select.POLLIN | (select.POLLOUT if self._keys else 0))
            ready = dict(poll.poll())
            if 0 in ready and not self._hear():
                poll.unregister(0)
                break
            if self._ours in ready and not self._show(ready[self._ours]):
                break
        os.close(self._ours)  # hangs up: what runs there gets SIGHUP
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _hear(self) -> bool:
        """False at the end of the input."""
        data = os.read(0, _PIECE)
        for kind, content in self._frames.feed(data):
            if kind == SIZE:
                self._resize(*_SIZE.unpack(content))
            else:
                self._keys += content
        return bool(data)

    def _show(self, events: int) -> bool:
        """False when nobody has the terminal open any more."""
        if events & select.POLLOUT and self._keys:
            try:
                self._keys = self._keys[os.write(self._ours, self._keys) :]
            except BlockingIOError:
                pass
        if events & (select.POLLIN | select.POLLHUP):
            try:
                data = os.read(self._ours, _PIECE)
            except BlockingIOError:
                return True
            except OSError:  # EIO: the last one closed it
                return False
            while data:
                data = data[os.write(1, data) :]
        return True

    def _resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _become(program: list[str], terminal: int) -> None:
    try:
        os.login_tty(terminal)
        os.execvp(program[0], program)
    except OSError as error:
        os.write(2, f"stormcell-guest: {program[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def main(argv: list[str]) -> int:
    """Exit code: the program's, or 128 and the signal that ended it."""
    if len(argv) < 3 or not argv[0].isdigit() or not argv[1].isdigit():
        sys.stderr.write("usage: stormcell-guest terminal ROWS COLUMNS PROGRAM...\n")
        return 2
    return Terminal(int(argv[0]), int(argv[1]), argv[2:]).serve()
