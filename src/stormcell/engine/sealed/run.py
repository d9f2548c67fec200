"""A sealed run from its experiment, and the same run again from its folder."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.engine.api import Outcome, begun, conclude, loaded_from, performed
from stormcell.engine.compile import compile_plan
from stormcell.engine.conductor import OnEvent
from stormcell.engine.folder import RunFolder, read_experiment, read_plan
from stormcell.engine.load import Loaded, load_mapping
from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.begin import begun_at
from stormcell.engine.sealed.bundle import Sealed
from stormcell.engine.sealed.compare import Comparison, Difference, compare
from stormcell.engine.sealed.conduct import SealedConductor, Start
from stormcell.engine.sealed.elsewhere import not_the_same
from stormcell.engine.sealed.log import SealedLog
from stormcell.engine.sealed.refusals import check_sealed
from stormcell.machine.disk import writing
from stormcell.machine.held import held
from stormcell.spec.errors import StormcellError
from stormcell.spec.experiment import Experiment
from stormcell.spec.files import read_regular
from stormcell.spec.home import Home, private_folder
from stormcell.spec.plan import Plan
from stormcell.spec.verdict import Result
from stormcell.template.model import Progress
from stormcell.template.sealed import SealedTemplate, build_sealed

MACHINE = ".machine-"
"""Begins the name of a machine's folder in its run's."""


def _ignore(_: object) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class SealedOutcome(Outcome):
    """An outcome with both times."""

    sealed: Sealed | None = None

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        assert self.sealed is not None
        return {**super().as_dict(), "sealed": self.sealed.as_dict()}


async def run_sealed(
    experiment: Path | str | Mapping[str, Any] | Experiment | Loaded,
    *,
    seed: int = 0,
    home: Home | None = None,
    runs: Path | None = None,
    template: SealedTemplate | None = None,
    on_event: OnEvent = _ignore,
    on_build: Callable[[Progress], None] = _ignore,
) -> SealedOutcome:
    """Run one experiment sealed; the sealed variant of its template is built first when there is none.

    `on_event` hears, beside the events, how far the guest is: {"event": "beat", "seconds": ..}, which is in no log.

    Raises SpecError for what a sealed run cannot do, and otherwise as `run_async` does.
    """
    home = home or Home.current()
    loaded = loaded_from(experiment, home)
    check_sealed(loaded)
    template = template or await build_sealed(loaded.recipe, home=home, progress=on_build)
    plan = compile_plan(loaded.experiment, loaded.disturbances, template_digest=template.digest, seed=seed)
    plan = plan.model_copy(update={"sealed": True})
    folder = begun(runs or home.runs, loaded, plan)
    bundle.write_recipe(folder, loaded.recipe)
    start = Start(template.spec("sealed"), template.state)
    return await perform(folder, loaded, plan, start, bundle.about(template, seed), on_event)


async def perform(
    folder: RunFolder, loaded: Loaded, plan: Plan, start: Start, sealed: Sealed, on_event: OnEvent
) -> SealedOutcome:
    """Carry out, judge, and keep all of it; of a run that this host has no machine for, nothing is kept.

    Cancelling releases the machine, writes the result, raises.
    """
    bundle.write(folder, sealed)
    log = SealedLog(folder, on_event)
    machine = contextlib.ExitStack()
    with writing("the machine's folder cannot be made", folder.path):
        place = machine.enter_context(held(folder.path, MACHINE))
    conductor = SealedConductor(plan, start, place, log, seed=sealed.seed)

    async def work() -> None:
        with machine:
            try:
                await conductor.perform()
            finally:
                folder.write("console.log", conductor.console)

    def concluded() -> Result:
        nonlocal sealed
        sealed = _after(sealed, conductor, folder.path)
        bundle.write(folder, sealed)
        return conclude(folder, loaded, plan, log.events)

    outcome = await performed(conductor, folder, work(), concluded)
    return SealedOutcome(outcome.result, outcome.folder, sealed)


def _after(sealed: Sealed, conductor: SealedConductor, folder: Path) -> Sealed:
    evidence = conductor.evidence
    return sealed.model_copy(
        update={
            "events_sha256": bundle.digest_of(folder / bundle.EVENTS),
            "guest_seconds": conductor.guest_seconds,
            "host_seconds": conductor.host_seconds,
            "evidence": evidence.as_dict() if evidence else None,
        }
    )


@dataclass(frozen=True)
class Replay:
    """A run that was repeated, and how its event log compares with the recorded one."""

    outcome: SealedOutcome
    recorded: Sealed
    compared: Comparison
    folder: Path
    """Of the recorded run."""

    @property
    def difference(self) -> Difference | None:
        """None when both event logs are equal, byte for byte."""
        return self.compared.difference

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        found, cut_off, lost = self.difference, self.compared.cut_off, self.compared.lost
        return {
            "replayed": str(self.folder),
            "identical": found is None,
            "difference": None if found is None else {"event": found.event, "was": found.was, "now": found.now},
            "cut_off": None if cut_off is None else {"events": cut_off},
            "lost": None if lost is None else {"events": lost},
            "log_damaged": self.compared.damaged,
            "outcome": self.outcome.as_dict(),
        }


async def replay(
    folder: Path,
    *,
    home: Home | None = None,
    on_event: OnEvent = _ignore,
    on_build: Callable[[Progress], None] = _ignore,
) -> Replay:
    """Repeat a sealed run from its folder, and compare. The new folder is kept only when something differs.

    Raises SpecError when this is no sealed run's folder, or this host cannot make the machine that it ran in; and what
    the host lacked when no machine could be made.
    """
    home = home or Home.current()
    recorded = bundle.read(folder)
    log = bundle.read_log(folder)
    loaded, plan = recorded_run(folder, home)
    template = await recorded_template(folder, recorded, home, on_build)
    new = RunFolder.create(private_folder(home.runs), f"replay-{flat(plan.experiment)}")
    for name in (bundle.RECIPE, "spec.json", "plan.json"):
        await asyncio.to_thread(shutil.copyfile, folder / name, new.path / name)
    about = bundle.about(template, recorded.seed, recorded.drive)
    try:
        async with begun_at(recorded.drive, template, home, on_event) as start:
            outcome = await perform(new, loaded, plan, start, about, on_event)
    except StormcellError:
        new.discard()
        raise
    compared = compare(log, recorded.events_sha256, read_regular(new.path / bundle.EVENTS))
    if compared.difference is None:
        new.discard()
    return Replay(outcome, recorded, compared, folder)


def flat(name: str) -> str:
    """The name of a branch as that of a folder."""
    return name.replace("/", "-")


def recorded_run(folder: Path, home: Home) -> tuple[Loaded, Plan]:
    """What was asked and planned, as it was then. Raises SpecError."""
    recipe, _ = bundle.read_recipe(folder)
    drive = bundle.read(folder).drive
    first = 1 + (drive.kept if drive else 0)
    return load_mapping(read_experiment(folder), home=home, recipe=recipe, first=first), read_plan(folder)


async def recorded_template(
    folder: Path, recorded: Sealed, home: Home, on_build: Callable[[Progress], None] = _ignore
) -> SealedTemplate:
    """The template of a recorded run, found or built again. Raises SpecError when it comes out as another one."""
    recipe, contents = bundle.read_recipe(folder)
    template = await build_sealed(recipe, home=home, progress=on_build, contents=contents)
    if template.digest == recorded.template and template.snapshot == recorded.snapshot:
        return template
    raise not_the_same(folder, recorded, template.inputs, template.snapshot, template.manifest.get("packages", ()))
