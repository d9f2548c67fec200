"""Where in a sealed machine's memory its disk and its mailbox are. Pure.

The disk is memory that the kernel is told to take for persistent (`memmap=SIZE!START`: /dev/pmem0), the mailbox memory
that it is told to leave alone (`memmap=SIZE$START`; Documentation/admin-guide/kernel-parameters.txt). What QEMU loads
at a reset, the initramfs, lies at the end of the memory below 4 GiB, so ordinary memory is left there. All sizes are
bytes; an offset is one into the file behind the memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from stormcell.guest.sealed import mailbox
from stormcell.spec.errors import SpecError

MIB = 1 << 20
GIB = 1 << 30
LOW = 3 * GIB
"""A microvm with 3 GiB or more has this much below 4 GiB, and the rest from there on (hw/i386/microvm.c)."""
HIGH = 4 * GIB
TOP = 64 * MIB
"""Ordinary memory behind the rest, with room for an initramfs of that size."""
ALIGN = 2 * MIB
"""Persistent memory begins and ends at a multiple of a section (SUBSECTION_SIZE in include/linux/mmzone.h)."""


@dataclass(frozen=True)
class Layout:
    """`memory` is what the guest may use; the disk and the mailbox come on top."""

    memory: int
    disk_size: int

    def __post_init__(self) -> None:
        if self.memory % ALIGN or self.memory < 4 * TOP or self.memory + mailbox.SIZE > LOW:
            most = (LOW - mailbox.SIZE) // MIB
            raise SpecError(
                f"a sealed machine cannot have {self.memory // MIB} MiB of memory",
                rule=f"it is an even number of MiB, at least {4 * TOP // MIB} and at most {most}",
                remedy="give the template another `memory`",
            )

    @property
    def _disk(self) -> int:
        return -(-self.disk_size // ALIGN) * ALIGN

    @property
    def _fits_below(self) -> bool:
        return self.memory + self._disk + mailbox.SIZE < LOW

    @property
    def size(self) -> int:
        """Of the file, and of the machine's memory as QEMU counts it."""
        return self.memory + self._disk + mailbox.SIZE if self._fits_below else LOW + self._disk + mailbox.SIZE

    @property
    def disk(self) -> int:
        """The disk's offset."""
        return self.memory - TOP if self._fits_below else LOW

    @property
    def box(self) -> int:
        """The mailbox's offset: behind the disk."""
        return self.disk + self._disk

    def words(self) -> list[str]:
        """For the kernel's command line."""
        words = [
            f"memmap={self._disk // MIB}M!{self._address(self.disk) // MIB}M",
            f"memmap={mailbox.SIZE // MIB}M${self._address(self.box) // MIB}M",
            f"{mailbox.WORD}{self._address(self.box):#x}",
        ]
        if not self._fits_below:
            unused = LOW - self.memory
            words.append(f"memmap={unused // MIB}M${(self.memory - TOP) // MIB}M")
        return words

    @staticmethod
    def _address(offset: int) -> int:
        """Where the guest sees it."""
        return offset if offset < LOW else offset - LOW + HIGH
