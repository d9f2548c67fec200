"""The guest stops its own machine at this very instruction.

Two ways. At a gate, QEMU's processor thread waits in the middle of an output instruction for room in a pipe of the
host's: no clock of QEMU's sees that, and the host reads and writes the guest's memory meanwhile. There are two gates,
used in turn, so that the host can close one again while the other one holds the guest; a bell says that it stands.

For a snapshot QEMU itself must stop, which the panic device brings about (`-action panic=pause`). Then the main loop
may or may not skip to the next timer, as it would for a processor that sleeps (all_cpu_threads_idle in
softmmu/cpus.c takes a stopped one for idle): so the time stamp counter is noted in the instructions before, and the
host sets the clock in the snapshot back to it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from typing import Any

from stormcell.guest.sealed.mailbox import GATE, HALTING, ORDER, STATUS, TSC

PANIC = 0x505
"""The panic device's port (hw/misc/pvpanic-isa.c)."""
GATES = (0x605, 0x606)
BELL, NOWHERE = 0x607, 0x60F
"""`NOWHERE` is a port that nothing listens to: to pass by takes the same instructions as to stand still."""
_TOGGLE = GATES[0] ^ GATES[1]

# rdi: the order, rsi: the status
_PASS = b"".join(
    (
        bytes((0x8B, 0x47, HALTING - ORDER)),  # mov eax, [rdi + halting]
        b"\xba" + struct.pack("<I", NOWHERE),  # mov edx, NOWHERE
        b"\xb9" + struct.pack("<I", BELL),  # mov ecx, BELL
        b"\x85\xc0\x0f\x45\xd1\xee",  # test eax, eax; cmovne edx, ecx; out dx, al
        b"\xba" + struct.pack("<I", NOWHERE),  # mov edx, NOWHERE
        bytes((0x8B, 0x4E, GATE)),  # mov ecx, [rsi + gate]
        b"\x85\xc0\x0f\x45\xd1\xee",  # test eax, eax; cmovne edx, ecx; out dx, al
        bytes((0x6B, 0xC0, _TOGGLE)),  # imul eax, eax, the toggle
        bytes((0x31, 0x46, GATE)),  # xor [rsi + gate], eax
        b"\xc3",  # ret
    )
)
_HALT = b"".join(
    (
        bytes((0x0F, 0x31, 0x89, 0x46, TSC, 0x89, 0x56, TSC + 4)),  # rdtsc; mov [rsi + tsc], eax; mov [.. + 4], edx
        b"\xba" + struct.pack("<I", PANIC),  # mov edx, PANIC
        b"\xb0\x01\xee\xc3",  # mov al, 1; out dx, al; ret
    )
)


class Stops:
    """Of a process that may use the ports."""

    def __init__(self, memory: mmap.mmap) -> None:
        """`memory` is the mailbox. Raises OSError where that is not allowed."""
        libc = ctypes.CDLL(None, use_errno=True)
        for port in (PANIC, *GATES, BELL, NOWHERE):
            if libc.ioperm(port, 1, 1) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), f"port {port:#x}")
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._order, self._status = ctypes.c_void_p(base + ORDER), ctypes.c_void_p(base + STATUS)
        memory[GATE : GATE + 4] = struct.pack("<I", GATES[0])
        self._always = mmap.mmap(-1, mmap.PAGESIZE)
        place = HALTING - ORDER
        self._always[place : place + 4] = struct.pack("<I", 1)
        self._stand = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self._always)))
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._pass, self._halt = self._routine(0, _PASS), self._routine(256, _HALT)

    def _routine(self, place: int, code: bytes) -> Any:
        self._code[place : place + len(code)] = code
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code, place))
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def pass_by(self) -> None:
        """Stand still if the order says so."""
        self._pass(self._order, self._status)

    def stand_still(self) -> None:
        """Until the host opens the gate."""
        self._pass(self._stand, self._status)

    def halt(self) -> None:
        """Until QEMU lets the machine go on."""
        self._halt(self._order, self._status)
