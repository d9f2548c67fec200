"""The guest stops its own machine at this very instruction, through the port of QEMU's panic device.

QEMU is told to pause when it hears of a panic (`-action panic=pause`), and does so before the next instruction. What
the host does meanwhile costs the guest no time: `cont` goes on as if nothing had been.
"""

from __future__ import annotations

import ctypes
import mmap
import os

STOP, GO_BY = 0x505, 0x605
"""The panic device's port (hw/misc/pvpanic-isa.c), and one that nothing listens to. A write to either takes the same
instructions, so that the host can choose by the number alone."""
_CODE = bytes([0x89, 0xFA, 0xB0, 0x01, 0xEE, 0xC3])  # mov edx, edi; mov al, 1; out dx, al; ret


class Ports:
    """Who holds this may write to the two ports."""

    def __init__(self) -> None:
        """Raises OSError where that is not allowed."""
        libc = ctypes.CDLL(None, use_errno=True)
        for port in (STOP, GO_BY):
            if libc.ioperm(port, 1, 1) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), f"port {port:#x}")
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._page.write(_CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_int)(address)

    def write(self, port: int) -> None:
        """At `STOP` the machine stands still until the host lets it go on."""
        self._call(port)
