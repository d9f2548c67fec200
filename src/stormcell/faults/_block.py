"""The shape of a fault of a disk: the device under a data volume gets another table while processes go on."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from stormcell.faults._fields import Documented, GuestPath
from stormcell.faults._reading import mapping, mappings, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading
from stormcell.spec.units import Percent, size_text

BLOCK = 8
SECTOR = 512
LONG = 120.0
LEAST_SHARE = 0.01
DISK, ERROR = "@disk", "@error"
SHADOW = re.compile(r"@shadow:\S+")
TRACING = "/sys/kernel/tracing/events/block/block_bio_complete/trigger"


def _some(share: float) -> float:
    if share < LEAST_SHARE:
        raise ValueError(f"a share of {share:g}% is out of range; it is at least {LEAST_SHARE:g}%")
    return share


Share = Annotated[Percent, AfterValidator(_some)]


class BlockFault(Documented):
    """Some or all sectors of the device get another target."""

    path: GuestPath
    """On a data volume (`volumes` of the template, or made in the setup by `stormcell-guest volume make`). A folder:
    the whole device. A file: the blocks that it has at the act, and no others."""
    share: Share = 100
    """So much of the device or the file, in blocks of 4 KiB, spread evenly."""
    cache: Literal["drop", "keep"] = "drop"
    """`drop`: what is read and was read before comes from the disk again: files are taken out of the page cache
    at the act and after the undo. `keep`: cached pages hide it, and after it they hide what never reached the disk."""

    @property
    def target(self) -> tuple[str, str]:
        """Kind and arguments of the bad sectors' target; @disk and @error as guest/tools/block/tool.py has them."""
        raise NotImplementedError

    @property
    def slow_ns(self) -> int:
        """Count requests that take at least so long."""
        return 0

    @property
    def wait_s(self) -> float:
        """Between the load of the table and its use."""
        return 0.0

    def plan(self) -> Act:
        """The undo knows from a mark what was there."""
        share = f"{self.share:g}"
        words = (self.path, share, self.cache, str(self.slow_ns), f"{self.wait_s:g}", *self.target)
        return Act(
            apply=(Command(argv=(GUEST, "block", "act", self.id, *words), timeout_s=LONG + self.wait_s),),
            undo=(Command(argv=(GUEST, "block", "heal", self.id), timeout_s=LONG),),
            read=(Command(argv=(GUEST, "block", "show", self.id, self.path), name="block"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The table was one healthy line; now the asked share of it has our target, and the rest is as it was."""
        was, now = told(before), told(during)
        act = now.get("act")
        if not isinstance(act, dict) or was.get("act") is not None or was.get("table") != [act.get("disk")]:
            return False
        if (act.get("path"), act.get("cache")) != (self.path, self.cache):
            return False
        return self._amount(act) and self._table(act, now)

    def _amount(self, act: dict[str, Any]) -> bool:
        bad, of = ranges(act.get("bad")), act.get("of")
        if not bad or not isinstance(of, int):
            return False
        wanted = of if self.share >= 100 else max(BLOCK, of * self.share / 100)
        return abs(sum(length for _, length in bad) - wanted) <= (0 if self.share >= 100 else BLOCK)

    def _table(self, act: dict[str, Any], now: dict[str, Any]) -> bool:
        """As the kernel wrote it back, line by line."""
        disk, table = act["disk"], now.get("table")
        if not (isinstance(disk, list) and len(disk) == 4 and isinstance(table, list)):
            return False
        beneath, _, offset = str(disk[3]).partition(" ")
        bad, found, shadowed = ranges(act.get("bad")), [], 0
        for line in table:
            if not (isinstance(line, list) and len(line) == 4 and all(isinstance(n, int) for n in line[:2])):
                return False
            start, length, target, args = line
            at = f"{beneath} {int(offset) + start}" if offset.isdigit() else ""
            if [target, args] == ["linear", at]:
                continue
            words = self.target[1].replace(DISK, at).replace(ERROR, f"{now.get('error')} {start}")
            words = SHADOW.sub(f"{now.get('shadow')} {shadowed}", words)
            if (target, args) != (self.target[0], words):
                return False
            found.append((start, length))
            shadowed += length
        return found == bad

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The table is the old line, nothing of ours counts any more."""
        was, now = told(before), told(undone)
        if not was and not now:
            return True
        gone = all(now.get(name) is None for name in ("act", "error", "shadow", "queued", "failed"))
        return bool(now) and gone and now.get("watched") == 0 and now.get("table") == was.get("table")

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """Another table for the same sectors."""
        if not isinstance(to, type(self)) or (to.path, to.share, to.cache) != (self.path, self.share, self.cache):
            return None
        if self.wait_s or to.wait_s or any(word in self.target[1] + to.target[1] for word in (ERROR, "@shadow")):
            return None
        return (Command(argv=(GUEST, "block", "change", self.id, str(to.slow_ns), *to.target), timeout_s=LONG),)

    def conflicts(self, other: Fault) -> str | None:
        """One table is all that a device has."""
        if isinstance(other, BlockFault) and _same_disk(self.path, other.path):
            return f"{self.kind} and {other.kind} both want to swap the table of the device that holds {self.path}"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Which sectors, who met them, how long requests took, what ext4 made of it."""
        return tuple(_notes(told(before), told(after))) if after is not None else ()

    def cannot_know(self) -> tuple[str, ...]:
        """Caches, new blocks."""
        said = [
            "names and attributes of files that the kernel has in memory (dentries, inodes) are not read from the disk",
            "pages that a process has mapped stay in memory, also when caches are dropped",
        ]
        if self.cache == "keep":
            said.append("what is read from the page cache meets no disk: a probe after the undo must drop the caches "
                        "before it reads, or it may see what never reached the disk")  # fmt: skip
        return tuple(said)


def told(reading: Reading | None) -> dict[str, Any]:
    """What the subcommand showed, {} when it did not."""
    return mapping(reading, "block")


def ranges(listed: Any) -> list[tuple[int, int]]:
    """(start, length) pairs; [] when anything else is among them."""
    if not isinstance(listed, list):
        return []
    pairs = [(item[0], item[1]) for item in listed
             if isinstance(item, list) and len(item) == 2 and all(isinstance(n, int) for n in item)]  # fmt: skip
    return pairs if len(pairs) == len(listed) else []


def met(reading: Reading | None) -> dict[str, int]:
    """Requests in the bad sectors, as the device-mapper counted and timed them."""
    return numbers(told(reading).get("met"))


def failed(reading: Reading | None) -> int:
    """Requests that the device answered with an error since the act."""
    return sum(_hits(entry) for entry in mappings(told(reading).get("failed")))


def _hits(entry: dict[str, Any]) -> int:
    text = entry.get("hitcount")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _same_disk(one: str, other: str) -> bool:
    """As far as the text tells: one lies in the other."""
    return (one + "/").startswith(other.rstrip("/") + "/") or (other + "/").startswith(one.rstrip("/") + "/")


def _notes(was: dict[str, Any], now: dict[str, Any]) -> Any:
    act = now.get("act")
    if not isinstance(act, dict):
        return
    bad = ranges(act.get("bad"))
    yield f"{size_text(sum(n for _, n in bad) * SECTOR)} of {act.get('device')} in {len(bad)} pieces"
    if isinstance(act.get("files_dropped"), int):
        yield f"{act['files_dropped']} files were taken out of the page cache at the act"
    queued: dict[str, int] = {}
    for entry in mappings(now.get("queued")):
        who = str(entry.get("process"))
        queued[who] = queued.get(who, 0) + _hits(entry)
    if queued:
        yield "requests to the device by process: " + ", ".join(f"{who} {n}" for who, n in sorted(queued.items()))
    for entry in mappings(now.get("failed")):
        error = {"-5": "EIO"}.get(str(entry.get("error")), entry.get("error"))
        yield f"{entry.get('process')}: {_hits(entry)} requests ({entry.get('rwbs')}) failed with {error}"
    yield from _bad(numbers(now.get("met")))
    yield from _waits(was, now, act)
    errors = [shown.get("errors") for shown in (act, now)]
    if isinstance(errors[0], int) and isinstance(errors[1], int) and errors[1] > errors[0]:
        yield (
            f"ext4 met {errors[1] - errors[0]} errors in its own data and has given up: it takes no writes until it is "
            "mounted anew (the undo does so when nobody has anything open on it)"
        )


def _bad(met: dict[str, int]) -> Any:
    for what in ("read", "write"):
        if count := met.get(f"{what}s", 0):
            yield f"{count} {what}s met bad sectors and took {met.get(f'{what}_ns', 0) / count / 1e6:.1f} ms on average"


def _waits(was: dict[str, Any], now: dict[str, Any], act: dict[str, Any]) -> Any:
    """await, as iostat has it."""
    first, then, last = (_device(shown) for shown in (was.get("stats"), act.get("at_act"), now.get("stats")))
    for what in ("read", "write"):
        count, took = f"{what}s", f"{what}_ms"
        earlier = first[took] / first[count] if first.get(count) and took in first else None
        if count in then and took in then and last.get(count, 0) > then[count] and took in last:
            mean = (last[took] - then[took]) / (last[count] - then[count])
            before = f" ({earlier:.1f} ms before)" if earlier is not None else ""
            yield f"await of the device: a {what} took {mean:.1f} ms on average{before}, of {last[count] - then[count]}"


def _device(stats: Any) -> dict[str, int]:
    return numbers(stats.get("device")) if isinstance(stats, dict) else {}
