"""Readings of a fault, and its receipt: the undo, written down before the act so that it needs nothing else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stormcell.guest.lifeline import Stop
from stormcell.guest.running import RunAll

RECEIPTS = "/run/stormcell/receipts"
RECEIPTS_VARIABLE = "STORMCELL_RECEIPTS"
_PLACEHOLDER = re.compile(r"\{before:([^{}]+)\}")


def take_reading(commands: Sequence[Mapping[str, Any]], run_all: RunAll, at: float) -> dict[str, Any]:
    """The answers of every `read` command, by its name. A command that fails is an answer too."""
    pairs = zip(commands, run_all(commands), strict=True)
    return {"at": round(at, 9), "outputs": {command["name"]: done.output() for command, done in pairs}}


def accepted(command: Mapping[str, Any], output: Mapping[str, Any]) -> bool:
    """Whether the command's exit code is one that counts as done."""
    return output["exit"] is not None and output["exit"] in command.get("accept", (0,))


def filled_in(undo: Sequence[Mapping[str, Any]], before: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The undo with each `{before:NAME}` replaced by what the command NAME said before the act.

    Raises Stop when it said nothing: a fault whose undo cannot be written down is not begun.
    """

    def said(match: re.Match[str]) -> str:
        output = before["outputs"].get(match[1])
        if output is None or output["exit"] != 0:
            why = "there is none of that name" if output is None else f"it failed: {output['err'].strip()[-200:]}"
            raise Stop("apply_failed", f"the undo needs the reading '{match[1]}' from before the act, but {why}")
        return str(output["out"]).strip()

    return [
        {
            **command,
            "argv": [_PLACEHOLDER.sub(said, part) for part in command["argv"]],
            "stdin": _PLACEHOLDER.sub(said, command.get("stdin", "")),
        }
        for command in undo
    ]


def receipt_path(fault: str) -> str:
    """Where the receipt of `fault` lies: on a tmpfs in the guest. Raises ValueError for a name that is no file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", fault):
        raise ValueError(f"'{fault}' is no name of a fault")
    return os.path.join(os.environ.get(RECEIPTS_VARIABLE, RECEIPTS), f"{fault}.json")


def receipts_there() -> list[str]:
    """Names of the faults that are begun and not undone, the latest first."""
    folder = os.path.dirname(receipt_path("x"))
    try:
        found = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    except FileNotFoundError:
        return []
    return [e.name.removesuffix(".json") for e in sorted(found, key=lambda e: e.stat().st_mtime_ns, reverse=True)]


def save_receipt(fault: str, receipt: Mapping[str, Any]) -> None:
    """Durable when this returns. Raises OSError."""
    path = receipt_path(fault)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    aside = f"{path}.new"
    with open(aside, "w", encoding="utf-8") as stream:
        json.dump(receipt, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(aside, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_receipt(fault: str) -> dict[str, Any]:
    """Raises FileNotFoundError when nothing is to be undone, ValueError when it cannot be read as a receipt."""
    with open(receipt_path(fault), encoding="utf-8") as stream:
        receipt = json.load(stream)
    if not isinstance(receipt, dict) or not isinstance(receipt.get("undo"), list):
        raise ValueError("the receipt holds no undo")
    return receipt


def forget_receipt(fault: str) -> None:
    """After an undo that worked; there need not be one."""
    try:
        os.unlink(receipt_path(fault))
    except FileNotFoundError:
        pass


def undo_from_receipt(fault: str, run_all: RunAll) -> tuple[bool, list[dict[str, Any]]]:
    """Undo `fault` and, when that worked, forget its receipt. Raises as `load_receipt`."""
    ok, outputs = undo_all(load_receipt(fault)["undo"], run_all)
    if ok:
        forget_receipt(fault)
    return ok, outputs


def undo_all(undo: Sequence[Mapping[str, Any]], run_all: RunAll) -> tuple[bool, list[dict[str, Any]]]:
    """Run every command, also after one that failed: what can be put back is put back."""
    outputs = [done.output() for done in run_all(undo)]
    return all(accepted(command, output) for command, output in zip(undo, outputs, strict=True)), outputs
