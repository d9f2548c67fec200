"""The guest stops its own machine at this very instruction.

Two ways. At a gate, QEMU's processor thread waits in the middle of an output instruction for room in a pipe of the
host's: no clock of QEMU's sees that, and the host reads and writes the guest's memory meanwhile. There are two gates,
used in turn, so that the host can close one again while the other one holds the guest; a bell says that it stands.

For a snapshot QEMU itself must stop, which the panic device brings about (`-action panic=pause`), a few instructions
behind the gate. Then its main loop may or may not skip to the next timer, as it would for a processor that sleeps
(all_cpu_threads_idle in softmmu/cpus.c takes a stopped one for idle): so the time stamp counter is noted just before,
and the host sets the clock in the snapshot back to it.

Every one of these is an output instruction to a port that the host chooses, by a number in memory. So whether the
machine goes by, stands still or stops, it executes the same instructions.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

from stormcell.guest.sealed.mailbox import GATE, GO_BY, ORDER, PASSING, STAND, STATUS, STOP, TSC

PANIC = 0x505
"""The panic device's port (hw/misc/pvpanic-isa.c)."""
GATES = (0x605, 0x606)
BELL, NOWHERE = 0x607, 0x60F
"""`NOWHERE` is a port that nothing listens to."""


def _move(register: int, port: int) -> bytes:
    return bytes((0xB8 + register,)) + struct.pack("<I", port)  # mov eax|ecx|edx, port


_CX, _DX = 1, 2
_PASS = b"".join(
    (  # rdi: a page with the word `passing`, rsi: the status, rdx: the order
        b"\x49\x89\xd0",  # mov r8, rdx
        bytes((0x8B, 0x47, PASSING - ORDER)),  # mov eax, [rdi + passing]
        _move(_DX, NOWHERE) + _move(_CX, BELL),
        bytes((0x83, 0xF8, GO_BY, 0x0F, 0x45, 0xD1, 0xEE)),  # cmp eax, GO_BY; cmovne edx, ecx; out dx, al
        _move(_DX, NOWHERE) + bytes((0x8B, 0x4E, GATE)),  # mov ecx, [rsi + gate]
        bytes((0x83, 0xF8, GO_BY, 0x0F, 0x45, 0xD1, 0xEE)),  # the same: here it stands
        bytes((0x31, 0xC9, 0x83, 0xF8, GO_BY, 0x0F, 0x95, 0xC1)),  # xor ecx, ecx; cmp eax, GO_BY; setne cl
        bytes((0x6B, 0xC9, GATES[0] ^ GATES[1], 0x31, 0x4E, GATE)),  # imul ecx, ecx, ..; xor [rsi + gate], ecx
        bytes((0x0F, 0x31, 0x89, 0x46, TSC, 0x89, 0x56, TSC + 4)),  # rdtsc; mov [rsi + tsc], eax; mov [.. + 4], edx
        bytes((0x41, 0x8B, 0x40, PASSING - ORDER)),  # mov eax, [r8 + passing]
        _move(_DX, NOWHERE) + _move(_CX, PANIC),
        bytes((0x83, 0xF8, STOP, 0x0F, 0x44, 0xD1)),  # cmp eax, STOP; cmove edx, ecx
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
        if not any(memory[GATE : GATE + 4]):  # else the machine was booted again, and the host has closed the next one
            memory[GATE : GATE + 4] = struct.pack("<I", GATES[0])
        self._always = mmap.mmap(-1, mmap.PAGESIZE)
        place = PASSING - ORDER
        self._always[place : place + 4] = struct.pack("<I", STAND)
        self._stand = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self._always)))
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._code.write(_PASS)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)

    def pass_by(self) -> None:
        """What the order says."""
        self._call(self._order, self._status, self._order)

    def stand_still(self) -> None:
        """Until the host opens the gate."""
        self._call(self._stand, self._status, self._order)
