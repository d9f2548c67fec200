"""Sealed runs from Python: `stormcell.run_sealed(FILE, seed=7)` and `stormcell.replay(FOLDER)`; each also `_async`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stormcell.engine.conductor import OnEvent
from stormcell.engine.load import Loaded
from stormcell.engine.sealed.run import Replay, SealedOutcome
from stormcell.engine.sealed.run import replay as replay_async
from stormcell.engine.sealed.run import run_sealed as run_sealed_async
from stormcell.spec.experiment import Experiment
from stormcell.spec.home import Home
from stormcell.template.model import Progress
from stormcell.template.sealed import SealedTemplate

__all__ = ["Replay", "SealedOutcome", "replay", "replay_async", "run_sealed", "run_sealed_async"]


def _ignore(_: object) -> None:
    """Nobody watches."""


def run_sealed(
    experiment: Path | str | Mapping[str, Any] | Experiment | Loaded,
    *,
    seed: int = 0,
    home: Home | None = None,
    runs: Path | None = None,
    template: SealedTemplate | None = None,
    on_event: OnEvent = _ignore,
    on_build: Callable[[Progress], None] = _ignore,
) -> SealedOutcome:
    """`run_sealed_async` for code without an event loop: the same seed gives the same events, byte for byte."""
    return asyncio.run(
        run_sealed_async(
            experiment, seed=seed, home=home, runs=runs, template=template, on_event=on_event, on_build=on_build
        )
    )


def replay(
    folder: Path | str,
    *,
    home: Home | None = None,
    on_event: OnEvent = _ignore,
    on_build: Callable[[Progress], None] = _ignore,
) -> Replay:
    """`replay_async` for code without an event loop: `difference` is None when every event came out the same."""
    return asyncio.run(replay_async(Path(folder), home=home, on_event=on_event, on_build=on_build))
