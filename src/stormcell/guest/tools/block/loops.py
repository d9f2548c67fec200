"""Loop devices: a file as a block device. As include/uapi/linux/loop.h has it."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

_GET_FREE, _CONFIGURE, _CLR_FD = 0x4C82, 0x4C0A, 0x4C01
_DIRECT_IO = 16
_TRIES = 20
_INFO = struct.Struct("=QQQQQIIII64s64s32sQQ")
_CONFIG_RESERVED = 64
BLOCK = 512
"""Logical block size: what every file system takes."""


def attach(path: str) -> str:
    """A loop device over the file, past the page cache where its file system can (direct I/O). Returns its node.

    Raises OSError.
    """
    backing = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for flags in (_DIRECT_IO, 0):
            try:
                return _attach(backing, path, flags)
            except OSError as error:
                if error.errno != errno.EINVAL or not flags:
                    raise
    finally:
        os.close(backing)
    raise AssertionError


def _attach(backing: int, path: str, flags: int) -> str:
    info = _INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, path.encode()[:63], b"", b"", 0, 0)
    config = struct.pack("=II", backing, BLOCK) + info + b"\0" * _CONFIG_RESERVED
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            node = f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}"
            device = os.open(node, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE, config)
                return node
            except OSError as error:
                if error.errno != errno.EBUSY:  # somebody else took it meanwhile
                    raise
            finally:
                os.close(device)
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "there is no free loop device", path)


def detach(node: str) -> None:
    """Let the file go once nobody uses the device; it need not have one."""
    try:
        device = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.ioctl(device, _CLR_FD)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
    finally:
        os.close(device)


def over(path: str) -> str | None:
    """The loop device whose file this is, None when there is none."""
    wanted = os.path.realpath(path)
    for name in os.listdir("/sys/block"):
        if name.startswith("loop"):
            try:
                with open(f"/sys/block/{name}/loop/backing_file", encoding="utf-8", errors="replace") as file:
                    if file.read().strip() == wanted:
                        return f"/dev/{name}"
            except FileNotFoundError:
                continue
    return None
