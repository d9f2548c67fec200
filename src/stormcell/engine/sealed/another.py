"""Another fault at a moment of a recorded run: from there on a sealed run of its own, with a verdict and a folder."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from stormcell.engine.api import begun
from stormcell.engine.branches.plans import compile_branch
from stormcell.engine.conductor import OnEvent
from stormcell.engine.folder import read_experiment, read_plan
from stormcell.engine.load import Loaded, load_over
from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.conduct import HandOver
from stormcell.engine.sealed.refusals import check_sealed
from stormcell.engine.sealed.run import SealedOutcome, perform
from stormcell.engine.sealed.stopped import Stopped
from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError
from stormcell.spec.experiment import Experiment
from stormcell.spec.home import Home
from stormcell.spec.yamlfile import Document

PAST = ("stormcell", "template", "open_ports", "nodes", "setup", "load", "moment", "raw_state", "cold_boot_within")
"""Of an experiment, what is settled at a moment of a run."""
OWN = ("fault", "faults", "predict")
"""Never taken from the recorded run when other faults are given: they were about its own."""


def _ignore(_: object) -> None:
    """Nobody watches."""


def document_of(fault: str) -> Document:
    """`kind=net.loss,device=lo,loss=30%` as a mapping with that fault. Raises SpecError."""
    pairs = [item.partition("=") for item in fault.split(",")]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise SpecError(
            f"'{fault}' is no fault",
            where="--fault",
            rule="its kind and parameters: kind=net.loss,device=lo,loss=30%",
            remedy="a value with a comma or of several parts is written in a file: --with FILE",
        )
    lines = [f"  {name.strip()}: {value.strip()}" for name, _, value in pairs]
    return Document(yamlfile.parse("\n".join(["fault:", *lines]), "--fault").data, "--fault")


def experiment_of(folder: Path, given: Document, hand_over: HandOver = "undo") -> Loaded:
    """The recorded run's experiment with what `given` says of the time from here on. Raises SpecError."""
    if "branches" in given.data:
        raise SpecError(
            "branches: one run goes on from a moment with one fault, or several at once",
            where=given.where(("branches",)),
            remedy="give each branch in a file of its own",
        )
    before = read_experiment(folder)
    other = {key: value for key, value in given.data.items() if key not in PAST}
    named = {"fault", "faults"} & other.keys()
    kept = {key: value for key, value in before.items() if key not in (OWN if named else ("predict",))}
    recipe, _ = bundle.read_recipe(folder)
    recorded = bundle.read(folder)
    drive = bundle.Drive(plan=read_plan(folder), seed=recorded.seed, hand_over=hand_over, before=recorded.drive)
    merged = Document({**kept, **other}, given.source, given.lines)
    loaded = load_over(merged, recipe, 1 + drive.kept)
    check_sealed(loaded)
    return loaded


def not_used(given: Document) -> tuple[str, ...]:
    """Fields that are given and that are of the time before: the recorded run's are there instead."""
    return tuple(key for key in given.data if key in PAST and key in Experiment.model_fields and key != "stormcell")


async def go_on(
    stopped: Stopped,
    loaded: Loaded,
    *,
    hand_over: HandOver = "undo",
    seed: int | None = None,
    home: Home | None = None,
    runs: Path | None = None,
    on_event: OnEvent = _ignore,
) -> SealedOutcome:
    """Carry out the faults and probes of `loaded` from there. `seed`: the recorded run's when none is given.

    Raises SpecError when the recorded run was ending there, or its fault could not be undone; nothing is kept then.
    """
    home = home or Home.current()
    seed = stopped.about.seed if seed is None else seed
    plan = compile_branch(loaded.experiment, loaded.disturbances, digest=stopped.about.template, seed=seed)
    plan = plan.model_copy(update={"sealed": True})
    drive = stopped.drive.model_copy(update={"hand_over": hand_over})
    about = stopped.about.model_copy(update={"seed": seed, "drive": drive})
    folder = begun(runs or home.runs, loaded, plan)
    try:
        await asyncio.to_thread(shutil.copyfile, stopped.folder / bundle.RECIPE, folder.path / bundle.RECIPE)
        return await perform(folder, loaded, plan, stopped.start(hand_over=hand_over), about, on_event)
    except SpecError:
        folder.discard()
        raise
