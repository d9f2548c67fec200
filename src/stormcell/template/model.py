"""A finished template, and the stages on the way to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stormcell.machine.model import Shape

Stage = Literal["kernel", "accel", "image", "boot", "files", "setup", "services", "ready", "warm", "snapshot", "done"]


@dataclass(frozen=True)
class Progress:
    """What a build does now. `elapsed_s` counts from the build's start."""

    template: str
    stage: Stage
    text: str
    elapsed_s: float


@dataclass(frozen=True)
class Template:
    """A guest image and a warmed snapshot of it running, verified.

    `disk` is the qcow2 file as it was at the snapshot and is never written again; `overlay` is an empty qcow2 file
    over it, to be copied for each sandbox; `memory` and `state` are the snapshot, and `wall_clock_ns` is what the
    guest's clock showed when it was stopped for it.
    """

    name: str
    digest: str
    folder: Path
    shape: Shape
    kernel: Path
    initrd: Path
    disk: Path
    overlay: Path
    memory: Path
    state: Path
    wall_clock_ns: int
    services: tuple[str, ...]
    manifest: Mapping[str, Any]
