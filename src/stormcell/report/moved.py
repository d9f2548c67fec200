"""Receipts as people read them: the kernel's numbers that moved, and how it was taken back. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from stormcell.judge.wording import seconds as duration
from stormcell.report.evidence import Moved, Proof
from stormcell.report.words import LINE, NAME, number, raw_json, words
from stormcell.spec.fault import Command, Reading
from stormcell.spec.receipt import Receipt

MOST_MOVED, MOST_NOTES = 40, 40
MOST_NUMBERS = 20_000
"""Looked at in one reading."""
DEEPEST = 12
_NAMES = ("comment", "name", "dev", "ifname", "path", "id", "pid", "kind", "key")
"""What tells one item of a list from another."""
_IGNORED = ("handle", "json_schema_version", "index", "refcnt")


def proof(receipt: Receipt) -> Proof:
    """Everything of one receipt."""
    found = _moved(receipt)
    raw, size = raw_json(receipt.model_dump(mode="json"))
    return Proof(
        fault=words(receipt.fault, NAME),
        kind=receipt.kind,
        params=tuple((words(key, NAME), words(value, LINE)) for key, value in receipt.params.items()),
        in_force=receipt.in_force,
        acted=receipt.acted,
        counts=words(receipt.counts, LINE),
        clean=receipt.clean,
        cycles=receipt.cycles,
        undo=tuple(_shell(command) for command in receipt.undo[:20]),
        moved=tuple(found[:MOST_MOVED]),
        moved_in_all=len(found),
        notes=tuple(words(note, LINE) for note in (*_held(receipt), *receipt.notes)[:MOST_NOTES]),
        raw=raw,
        raw_bytes=size,
    )


def _held(receipt: Receipt) -> Iterator[str]:
    """How long it was in force, where a schedule asked for a length."""
    for held in receipt.held[: MOST_NOTES // 2]:
        if held.asked_s is not None:
            name = held.level or f"time {held.cycle + 1}"
            had = "never" if held.had_s is None else duration(held.had_s)
            yield f"{name}: in force for {had}, asked {duration(held.asked_s)}"


def _shell(command: Command) -> str:
    text = shlex.join(command.argv)
    text = f"node {command.node}: {text}" if command.node else text
    return words(f"{text} <<< {shlex.quote(command.stdin.strip())}" if command.stdin else text, LINE)


def _moved(receipt: Receipt) -> list[Moved]:
    """Those that moved while the fault was in force first. Of several cycles: the first act and the last undo."""
    ends = {label: _last(receipt.readings, label) for label in ("after", "undone")}
    readings = {"before": receipt.readings.get("before"), "during": receipt.readings.get("during"), **ends}
    numbers = {label: _numbers(reading) for label, reading in readings.items() if reading is not None}
    rows = []
    for name in dict.fromkeys(name for found in numbers.values() for name in found):
        seen = {label: found.get(name) for label, found in numbers.items()}
        if len(set(seen.values())) > 1 and any(seen.values()):
            rows.append(
                Moved(name, seen.get("before"), seen.get("during"), seen.get("after"), seen.get("undone")),
            )
    return sorted(rows, key=_interest)


def _interest(row: Moved) -> int:
    """The fault's own counters, then what else moved under it, then what came with it and stood still."""
    if row.during is not None and row.after is not None and row.during != row.after:
        return 0 if row.before is None else 1
    return 2 if row.before != row.during else 3


def _last(readings: Mapping[str, Reading], label: str) -> Reading | None:
    cycles = [name for name in readings if name == label or name.startswith(f"{label}.")]
    return readings[cycles[-1]] if cycles else None


def _numbers(reading: Reading) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, output in reading.outputs.items():
        data = reading.json_of(name)
        items = _flat(data, (), 0) if isinstance(data, dict | list) else _lines(output.out)
        for path, value in items:
            if len(found) >= MOST_NUMBERS:
                return found
            found.setdefault(words(" ".join((name, *path)), NAME), value)
    return found


def _flat(data: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[tuple[str, ...], float]]:
    if depth > DEEPEST:
        return
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in _IGNORED:
                yield from _flat(value, (*path, str(key)), depth + 1)
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from _flat(value, (*path, *_identity(value, place)), depth + 1)
    else:
        value = float(data) if isinstance(data, bool) else number(data)
        if value is not None:
            yield tuple(part for part in path if part not in ("nftables", "rule", "expr")), value


def _identity(value: Any, place: int) -> tuple[str, ...]:
    """An item of a list by its name; an item with one key (as nft writes them) by what is inside."""
    if isinstance(value, dict):
        inner = next(iter(value.values())) if len(value) == 1 else value
        if isinstance(inner, dict):
            named = next((inner[name] for name in _NAMES if isinstance(inner.get(name), str | int)), None)
            if named is not None:
                return (str(named),)
        if len(value) == 1:
            return ()
    return (str(place + 1),)


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """`key value` lines, and lines of numbers as /proc has them, by their place."""
    for line in text[:200_000].splitlines():
        parts = line.replace("=", " ").split()
        if len(parts) == 2 and (value := _parsed(parts[1])) is not None:
            yield (parts[0].rstrip(":"),), value
        elif len(parts) == 1 and (value := _parsed(parts[0])) is not None:
            yield (), value


def _parsed(text: str) -> float | None:
    try:
        return number(float(text)) if len(text) < 30 else None
    except ValueError:
        return None
