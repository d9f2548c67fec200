"""An experiment with branches, from the drive to the differential verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stormcell.engine.branches.drive import Drive
from stormcell.engine.branches.plans import compile_all
from stormcell.engine.conductor import OnEvent
from stormcell.engine.folder import RunFolder, read_plan, read_receipts
from stormcell.engine.load import Loaded
from stormcell.engine.receipts import receipt
from stormcell.judge.branches import Told, judge_branches
from stormcell.judge.events import read_events
from stormcell.spec.errors import SpecError, StormcellError
from stormcell.spec.plan import Plan
from stormcell.spec.schedule import Disturbance
from stormcell.spec.value import nearest
from stormcell.spec.verdict import CONTROL, Result, Verdict
from stormcell.template.model import Template

FOLDER = "branches"


class Branching:
    """One experiment with branches. Use once: `begin`, `perform`, then `conclude` whatever happened."""

    def __init__(
        self, loaded: Loaded, template: Template, *, seed: int, only: Sequence[str], jobs: int, on_event: OnEvent
    ) -> None:
        """`jobs` branches at a time, beside nobody else. Raises SpecError for a branch that is not there."""
        check_branches(loaded, only)
        self._loaded = loaded
        self._template = template
        self._room = asyncio.Semaphore(jobs)
        self._on_event = on_event
        self.plan, self._plans = compile_all(loaded, only=only, digest=template.digest, seed=seed)
        self._folders: dict[str, RunFolder] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._driven: list[dict[str, Any]] = []
        self.refused = False
        """This host has no machine for it: nothing was begun."""

    async def perform(self, folder: RunFolder) -> None:
        """The drive, the control, then the others: after a control that did not survive there is nothing to learn.

        Raises what the host lacked for the first machine, and CancelledError.
        """
        drive = Drive(self.plan, self._template, folder, self._on_event)
        self._driven = drive.events
        try:
            await self._from(drive, folder)
        finally:
            self.refused = drive.refused

    async def _from(self, drive: Drive, folder: RunFolder) -> None:
        async with drive:
            if not drive.there:
                return
            try:
                await self._branch(drive, folder, CONTROL)
                if self._told(CONTROL).result().verdict is Verdict.SURVIVED:
                    async with asyncio.TaskGroup() as group:
                        for name in self._plans:
                            if name != CONTROL:
                                group.create_task(self._branch(drive, folder, name))
            except asyncio.CancelledError:
                drive.interrupted()
                raise

    async def _branch(self, drive: Drive, folder: RunFolder, name: str) -> None:
        async with self._room:
            plan = self._plans[name]
            own = self._folders[name] = folder.below(f"{FOLDER}/{name}")
            experiment = self._loaded.experiment
            spec = experiment.branch(name) if name != CONTROL else experiment
            own.write_json("spec.json", spec.model_dump(mode="json", by_alias=True))
            own.write_json("plan.json", plan.model_dump(mode="json"))
            events = self._events[name] = []

            def tell(event: Mapping[str, Any]) -> None:
                events.append(dict(event))
                self._on_event({**event, "branch": name})

            try:
                await drive.branch(plan, own, tell)
            except StormcellError:
                pass  # its events say so: this branch is lost, and the others are not
            self._keep(name)

    def _keep(self, name: str) -> None:
        folder, told = self._folders[name], self._told(name)
        folder.save_receipts(told.receipts)
        folder.save_result(told.result())

    def _told(self, name: str) -> Told:
        plan, events = self._plans[name], self._events[name]
        return Told(plan, events, {item.id: receipt(item, plan, events) for item in self._disturbances(name)})

    def _disturbances(self, name: str) -> tuple[Disturbance, ...]:
        return next((branch.disturbances for branch in self._loaded.branches if branch.name == name), ())

    def conclude(self) -> Result:
        """The verdict on what there is by now; what each branch came to is kept in its folder."""
        for name in self._folders:
            self._keep(name)  # one that was interrupted, too
        told = {name: self._told(name) for name in self._folders}
        return judge_branches(Told(self.plan, self._driven), told, _places(told))


def check_branches(loaded: Loaded, only: Sequence[str]) -> None:
    """Raises SpecError when a branch was asked for that the experiment does not have."""
    known = [branch.name for branch in loaded.branches]
    for name in only:
        if not known:
            raise SpecError(f"there is no branch '{name}': the experiment has no branches", where=loaded.source)
        if name not in known:
            hint = "the control always runs" if name == CONTROL else nearest(name, known)
            raise SpecError(f"there is no branch '{name}'; {hint}", where=loaded.source)


def judge_again(folder: Path, plan: Plan) -> Result:
    """The verdict, from the folder of a drive and of its branches. Raises SpecError when it is damaged."""
    told: dict[str, Told] = {}
    for name in plan.branches:
        own = folder / FOLDER / name
        if (own / "plan.json").exists():  # else it was never begun
            told[name] = Told(read_plan(own), _events(own), read_receipts(own))
    return judge_branches(Told(plan, _events(folder)), told, _places(told))


def _events(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    return read_events(path) if path.exists() else []


def _places(names: Mapping[str, Told]) -> dict[str, str]:
    return {name: f"{FOLDER}/{name}" for name in names}
