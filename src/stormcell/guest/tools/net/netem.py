"""netem's parameters between tc's words and the kernel's numbers (linux/pkt_sched.h; tc-netem(8))."""

from __future__ import annotations

import glob
import struct
from collections.abc import Callable
from typing import Any

from stormcell.guest.tools.net.netlink import attribute, attributes
from stormcell.guest.tools.net.tcwords import Words

_BASE = struct.Struct("=6I")  # latency, limit, loss, gap, duplicate, jitter
_CORR, _DIST, _REORDER, _CORRUPT, _LOSS, _RATE, _RATE64, _LATENCY64, _JITTER64, _SLOT = 1, 2, 3, 4, 5, 6, 8, 10, 11, 12
_STATES, _GILBERT = 1, 2
_SLOTS = struct.Struct("=qqiiqq")
_WIRE = struct.Struct("=IiIi")
_WHOLE = (1 << 32) - 1
_TABLES = ("/usr/lib/tc", "/usr/lib/*/tc", "/usr/lib64/tc")


class _Parts:
    """What the words have said so far."""

    def __init__(self) -> None:
        self.limit, self.loss, self.gap, self.duplicate = 1000, 0, 0, 0
        self.delay = self.jitter = 0
        self.correlations = [0, 0, 0]
        self.further: dict[int, bytes] = {}
        self.named: set[str] = set()


def options(words: Words) -> bytes:
    """The attribute TCA_OPTIONS of these words. Raises ValueError for what is none of netem's."""
    parts = _Parts()
    while words.more:
        name = words.take()
        if name not in _READERS:
            raise ValueError(f"netem has no part '{name}'")
        parts.named.add(name)
        _READERS[name](words, parts)
    return _packed(parts)


def _packed(parts: _Parts) -> bytes:
    if "reorder" in parts.named and not parts.delay:
        raise ValueError("to reorder, netem needs a delay")
    if "reorder" not in parts.named and parts.gap:
        raise ValueError("a gap is one of reordering")
    gap = parts.gap or int("reorder" in parts.named)
    found = _BASE.pack(0, parts.limit, parts.loss, gap, parts.duplicate, 0)
    if any(parts.correlations):
        found += attribute(_CORR, struct.pack("=3I", *parts.correlations))
    if "delay" in parts.named:
        found += attribute(_LATENCY64, struct.pack("=q", parts.delay))
        found += attribute(_JITTER64, struct.pack("=q", parts.jitter))
    return found + b"".join(attribute(kind, value) for kind, value in parts.further.items())


def _delay(words: Words, parts: _Parts) -> None:
    parts.delay = words.nanoseconds()
    if words.number_next:
        parts.jitter = words.nanoseconds()
    if words.number_next:
        parts.correlations[0] = words.share()


def _distribution(words: Words, parts: _Parts) -> None:
    """The tables come with tc (netem/maketable in its source)."""
    name = words.take()
    if not name.isalpha():
        raise ValueError(f"'{name}' is no distribution")
    found = [path for place in _TABLES for path in glob.glob(f"{place}/{name}.dist")]
    if not found:
        raise ValueError(f"there is no table of the distribution '{name}'")
    with open(found[0], encoding="ascii") as file:
        numbers = [int(word) for line in file if not line.startswith("#") for word in line.split()]
    parts.further[_DIST] = struct.pack(f"={len(numbers)}h", *numbers)


def _losses(words: Words, parts: _Parts) -> None:
    if words.skip("state"):
        p13, p31, p32, p23, p14 = (words.share() for _ in range(5))
        parts.further[_LOSS] = attribute(_STATES, struct.pack("=5I", p13, p31, p32, p14, p23))
    elif words.skip("gemodel"):
        p, r, bad, good = (words.share() for _ in range(4))
        parts.further[_LOSS] = attribute(_GILBERT, struct.pack("=4I", p, r, _WHOLE - bad, good))
    else:
        words.skip("random")
        parts.loss = words.share()
        parts.correlations[1] = words.share() if words.number_next else 0


def _duplicate(words: Words, parts: _Parts) -> None:
    parts.duplicate = words.share()
    parts.correlations[2] = words.share() if words.number_next else 0


def _pair(kind: int) -> Callable[[Words, _Parts], None]:
    def read(words: Words, parts: _Parts) -> None:
        parts.further[kind] = struct.pack("=2I", words.share(), words.share() if words.number_next else 0)

    return read


def _rate(words: Words, parts: _Parts) -> None:
    rate = words.bytes_per_second()
    wire = [words.whole() if words.number_next else 0 for _ in range(3)]
    parts.further[_RATE] = _WIRE.pack(min(rate, _WHOLE), *wire)
    if rate > _WHOLE:
        parts.further[_RATE64] = struct.pack("=Q", rate)


def _slot(words: Words, parts: _Parts) -> None:
    least = words.nanoseconds()
    most = words.nanoseconds() if words.number_next else least
    packets = words.whole() if words.skip("packets") else 0
    size = words.whole() if words.skip("bytes") else 0
    parts.further[_SLOT] = _SLOTS.pack(least, most, packets, size, 0, 0)


def _limit(words: Words, parts: _Parts) -> None:
    parts.limit = words.whole()


def _gap(words: Words, parts: _Parts) -> None:
    parts.gap = words.whole()


_READERS: dict[str, Callable[[Words, _Parts], None]] = {
    "delay": _delay,
    "distribution": _distribution,
    "loss": _losses,
    "duplicate": _duplicate,
    "reorder": _pair(_REORDER),
    "corrupt": _pair(_CORRUPT),
    "rate": _rate,
    "slot": _slot,
    "limit": _limit,
    "gap": _gap,
}


# -- what the kernel shows ----------------------------------------------------------------------------------------


def shown(data: bytes) -> dict[str, Any]:
    """The kernel's TCA_OPTIONS as `tc -json` shows them: parts that are off are left out."""
    _, limit, loss, gap, duplicate, _ = _BASE.unpack_from(data)
    given = attributes(data[_BASE.size :])
    of_delay, of_loss, of_duplicate = struct.unpack("=3I", given.get(_CORR, bytes(12)))
    found: dict[str, Any] = {"limit": limit}
    delay, jitter = (struct.unpack("=q", given.get(kind, bytes(8)))[0] for kind in (_LATENCY64, _JITTER64))
    if delay or jitter:
        found["delay"] = {"delay": delay / 1e9, "jitter": jitter / 1e9, "correlation": _part(of_delay)}
    if loss:
        found["loss-random"] = {"loss": _part(loss), "correlation": _part(of_loss)}
    found |= _loss_model(attributes(given.get(_LOSS, b"")))
    if duplicate:
        found["duplicate"] = {"duplicate": _part(duplicate), "correlation": _part(of_duplicate)}
    for name, kind in (("reorder", _REORDER), ("corrupt", _CORRUPT)):
        share, correlation = struct.unpack("=2I", given.get(kind, bytes(8)))
        if share:
            found[name] = {name: _part(share), "correlation": _part(correlation)}
    rate, overhead, cell, cell_overhead = _WIRE.unpack(given.get(_RATE, bytes(16)))
    if rate:
        rate = struct.unpack("=Q", given[_RATE64])[0] if _RATE64 in given else rate
        found["rate"] = {"rate": rate, "packetoverhead": overhead, "cellsize": cell, "celloverhead": cell_overhead}
    least, most, packets, size, _, _ = _SLOTS.unpack(given.get(_SLOT, bytes(_SLOTS.size)))
    if least or most:
        found["slot"] = {"min-delay": least / 1e9, "max-delay": most / 1e9, "packets": packets, "bytes": size}
    return {**found, "gap": gap}


def _loss_model(given: dict[int, bytes]) -> dict[str, Any]:
    if _STATES in given:
        p13, p31, p32, p14, p23 = map(_part, struct.unpack("=5I", given[_STATES]))
        return {"loss-state": {"p13": p13, "p31": p31, "p32": p32, "p23": p23, "p14": p14}}
    if _GILBERT in given:
        p, r, bad, good = struct.unpack("=4I", given[_GILBERT])
        return {"loss-gemodel": {"p": _part(p), "r": _part(r), "1-h": _part(_WHOLE - bad), "1-k": _part(good)}}
    return {}


def _part(number: int) -> float:
    """With six digits, as tc shows it."""
    return float(f"{number / _WHOLE:.6g}")
