"""tbf's parameters between tc's words and the kernel's numbers (linux/pkt_sched.h; tc-tbf(8))."""

from __future__ import annotations

import struct
from typing import Any

from stormcell.guest.tools.net.netlink import attribute, attributes
from stormcell.guest.tools.net.tcwords import Words

_PARMS, _RATE64, _BURST = 1, 4, 6
_SPEC = "BBHhHI"  # cell_log, linklayer, overhead, cell_align, mpu, rate
_STRUCT = struct.Struct(f"={_SPEC}{_SPEC}III")  # rate, peakrate, limit, buffer, mtu
_ETHERNET = 1
"""TC_LINKLAYER_ETHERNET: the kernel reckons by the rate itself, and asks for no table."""
_TICK_NS = 64
"""A tick of the packet scheduler (PSCHED_SHIFT in net/pkt_sched.h)."""
_MOST = (1 << 32) - 1


def options(words: Words) -> bytes:
    """The attribute TCA_OPTIONS of `rate RATE burst BYTES latency TIME|limit BYTES`. Raises ValueError."""
    words.expect("rate")
    rate = words.bytes_per_second()
    words.expect("burst")
    burst = words.whole()
    if not rate or not burst:
        raise ValueError("tbf needs a rate and a burst")
    if words.skip("latency"):
        limit = round(rate * words.nanoseconds() / 1e9) + burst
    else:
        words.expect("limit")
        limit = words.whole()
    if words.more:
        raise ValueError(f"tbf has no part '{words.take()}' here")
    spec = (0, _ETHERNET, 0, 0, 0, min(rate, _MOST))
    ticks = round(burst / rate * 1e9 / _TICK_NS)
    packed = _STRUCT.pack(*spec, *(0,) * 6, min(limit, _MOST), min(ticks, _MOST), 0)
    wide = attribute(_RATE64, struct.pack("=Q", rate)) if rate > _MOST else b""
    return attribute(_PARMS, packed) + attribute(_BURST, burst) + wide


def shown(data: bytes) -> dict[str, Any]:
    """The kernel's TCA_OPTIONS as `tc -json` shows them: bytes per second, bytes, microseconds."""
    given = attributes(data)
    fields = _STRUCT.unpack(given[_PARMS])
    rate, limit, ticks = fields[5], fields[12], fields[13]
    rate = struct.unpack("=Q", given[_RATE64])[0] if _RATE64 in given else rate
    seconds = ticks * _TICK_NS / 1e9
    latency = round((limit / rate - seconds) * 1e6) if rate else 0
    return {"rate": rate, "burst": round(rate * seconds), "lat": max(0, latency)}
