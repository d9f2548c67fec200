"""Carries out a search: asks where to look next, runs that, and tells what came out.

Its runs have ids and a place in the ledger as all others; since the next question follows from the answers alone, a
search that is resumed asks the same ones and finds the answers there.
"""

from __future__ import annotations

from stormcell.engine.campaigns.executor import Executor, Task
from stormcell.engine.campaigns.folder import CampaignFolder
from stormcell.engine.campaigns.gather import broke, line
from stormcell.engine.campaigns.load import LoadedCampaign, LoadedCell, at_value
from stormcell.engine.campaigns.warm import Warm, warm_up, worth_it
from stormcell.engine.folder import RunFolder
from stormcell.judge.threshold import Ask, Seen, next_step, unfinished
from stormcell.ledger.model import Ledger
from stormcell.spec.campaign import Find
from stormcell.spec.expansion import Execution
from stormcell.spec.home import Home
from stormcell.spec.matrix import SearchResult


class Search:
    """The questions and answers of one search so far. Use once."""

    def __init__(
        self, campaign: LoadedCampaign, find: Find, ledger: Ledger, folder: CampaignFolder, seed: int, home: Home
    ) -> None:
        self.runs: list[tuple[LoadedCell, Execution]] = []
        """All that were asked for."""
        self.forked = False
        """Whether runs of this session were forks of one machine that was set up."""
        self._campaign = campaign
        self._find = find
        self._ledger = ledger
        self._folder = folder
        self._seed = seed
        self._home = home
        self._cells: dict[float, LoadedCell] = {}
        self._seen: dict[float, Seen] = {}
        self._result: SearchResult | None = None

    async def perform(self, executor: Executor) -> None:
        """Until there is an answer, or a run cannot be made. What needs a setup is set up once, and forked."""
        warm: Warm | None = None
        try:
            while asked := self._next():
                if warm is None and not all(self._finished(run) for _, run in asked):
                    warm = await self._warm_up(executor)
                    if warm is not None:
                        self.forked = True
                        executor.conduct = warm.conduct
                await executor.perform([Task(run, self._cells[ask.at.value].loaded) for ask, run in asked])
                self._tell(asked)
        finally:
            if warm is not None:
                await warm.close()

    def retrace(self) -> None:
        """As far as runs that came to an end lead; nothing is run."""
        while (asked := self._next()) and all(self._finished(run) for _, run in asked):
            self._tell(asked)

    def _next(self) -> list[tuple[Ask, Execution]]:
        """The runs that are needed next; none when there is an answer."""
        step = next_step(self._find, self._seen)
        if isinstance(step, SearchResult):
            self._result = step
            return []
        asked = [(ask, run) for ask in step for run in self._executions(ask)]
        self.runs += [(self._cells[ask.at.value], run) for ask, run in asked]
        return asked

    def _finished(self, run: Execution) -> bool:
        return self._ledger.entry(run.id).state == "finished"

    async def _warm_up(self, executor: Executor) -> Warm | None:
        loaded = self._campaign.cells[0].loaded
        if not worth_it(loaded, self._campaign.field):
            return None
        folder = RunFolder.create(self._folder.path / "setup", loaded.experiment.name)
        return await warm_up(loaded, executor.templates[str(loaded.recipe)], folder)

    def answer(self, stopped: str) -> SearchResult:
        """What was found, also by a search that was stopped."""
        return self._result or unfinished(self._find, self._seen, stopped or "interrupted")

    def _executions(self, ask: Ask) -> list[Execution]:
        """The next runs at a value, each with the next seed."""
        if ask.at.value not in self._cells:
            self._cells[ask.at.value] = at_value(self._campaign, ask.at.plain, ask.at.text, self._home)
        cell = self._cells[ask.at.value].cell
        begun = len(self._seen[ask.at.value].runs) if ask.at.value in self._seen else 0
        return [Execution(cell, self._seed + begun + number, 1) for number in range(ask.count)]

    def _tell(self, asked: list[tuple[Ask, Execution]]) -> None:
        for ask, run in asked:
            one = line(run, self._ledger.entry(run.id), self._folder)
            said = broke(one, self._find.probe, self._find.metric)
            self._seen.setdefault(ask.at.value, Seen(ask.at)).runs.append((run.id, said))
