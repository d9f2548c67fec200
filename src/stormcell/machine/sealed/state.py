"""What in a saved device state is the host's doing is taken out of it, so that only the guest's own is left."""

from __future__ import annotations

import struct
from pathlib import Path

from stormcell.machine.sealed.argv import SHIFT
from stormcell.spec.errors import MachineError

_TIMER = b"\x05timer"
_ICOUNT = b"\x0ctimer/icount"
_REPLAY = b"\x06replay"
_OFFSETS = struct.Struct(">qqq")
"""vmstate_timers: cpu_ticks_offset, an unused field, cpu_clock_offset (softmmu/cpu-timers.c)."""
_COUNT = struct.Struct(">qq")
"""icount_vmstate_timers: qemu_icount_bias, qemu_icount."""
_RECORD = struct.Struct(">2qQi")
"""vmstate_replay: cached clocks of the host, the instruction of the last record, instructions since
(replay/replay-snapshot.c)."""
_RECORDED = struct.Struct(">Q")
"""`file_offset` of the same, behind two words."""


def settle(path: Path, tsc: int) -> None:
    """Set the clock to `tsc` (ns): what the guest read in the instruction before it stopped. See guest/sealed/stop.py.

    Host clocks are set to zero: nothing in a machine with icount looks at them. The record, of which nothing is kept,
    begins anew at this instruction. Raises MachineError, OSError.
    """
    path.write_bytes(settled(path.read_bytes(), tsc))


def settled(state: bytes, tsc: int) -> bytes:
    """`settle` for bytes. Pure."""
    place = state.find(_TIMER)
    count = state.find(_ICOUNT, place)
    record = state.find(_REPLAY, count)
    if min(place, count, record) < 0 or state.find(_ICOUNT, count + 1) >= 0:
        raise MachineError(
            "the saved state holds no instruction count",
            rule="a sealed machine's state is that of QEMU with icount",
            remedy="use the QEMU that this version was made for (7.2)",
        )
    # behind the name: instance and version of the section, and the version of the subsection, 4 bytes each
    offsets, values = place + len(_TIMER) + 8, count + len(_ICOUNT) + 4
    _, instructions = _COUNT.unpack_from(state, values)
    changed = bytearray(state)
    _OFFSETS.pack_into(changed, offsets, 0, 0, 0)
    _COUNT.pack_into(changed, values, tsc - (instructions << SHIFT), instructions)
    at = record + len(_REPLAY) + 8
    _RECORD.pack_into(changed, at, 0, 0, instructions, 0)
    _RECORDED.pack_into(changed, at + _RECORD.size + 8, 0)
    return bytes(changed)
