"""What makes a run repeatable, and how long it took on both clocks: from sealed.json into the model. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from stormcell.engine.sealed.bundle import Sealed
from stormcell.report.evidence import SealedRun
from stormcell.report.words import LINE, NAME, words

NAMED = {"kernel": "the guest's kernel", "image": "its root file system", "initrd": "its own programs",
         "machine": "the machine's command line"}  # fmt: skip
SHORT = 16
"""Digits shown of a digest; sealed.json has all of them."""


def sealed_run(sealed: Sealed, folder: str) -> SealedRun:
    """Of a run that was cut off both times are None."""
    ended = sealed.host_seconds > 0
    return SealedRun(
        seed=sealed.seed,
        template=words(sealed.template, NAME),
        snapshot=words(sealed.snapshot, NAME),
        events_sha256=words(sealed.events_sha256, NAME),
        guest_seconds=sealed.guest_seconds if ended else None,
        host_seconds=sealed.host_seconds if ended else None,
        replay=words(f"stormcell run --replay {shlex.quote(folder)}", LINE) if folder else "",
        inputs=tuple((name, words(value, NAME)) for name, value in _inputs(sealed)),
    )


def _inputs(sealed: Sealed) -> Iterator[tuple[str, str]]:
    """Everything that its events are a function of, in the order in which a reader would look for a difference."""
    inputs = sealed.inputs
    yield "the experiment and its seed", str(sealed.seed)
    recipe = inputs.get("recipe")
    name = recipe.get("name", "") if isinstance(recipe, Mapping) else ""
    yield "the template's recipe and files", f"{name} {_digest([recipe, inputs.get('files')])}".strip()
    for key, called in NAMED.items():
        if isinstance(value := inputs.get(key), str):
            yield called, value[:SHORT]
    qemu = inputs.get("qemu")
    if isinstance(qemu, Mapping):
        yield "QEMU", f"{qemu.get('version', '')} {str(qemu.get('sha256', ''))[:SHORT]}"


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:SHORT]
