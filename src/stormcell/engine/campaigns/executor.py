"""Runs what is to be run: each at most once, as many at a time as the host has room for."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stormcell.engine.api import Conduct, run_async
from stormcell.engine.campaigns import growth, means
from stormcell.engine.campaigns.folder import CampaignFolder
from stormcell.engine.campaigns.means import Need
from stormcell.engine.campaigns.promises import Promises
from stormcell.engine.campaigns.recovery import facts, saved, settle
from stormcell.engine.conductor import Conductor
from stormcell.engine.load import Loaded
from stormcell.ledger.model import Ledger
from stormcell.sandbox import admission
from stormcell.sandbox.record import Record, RecordTorn
from stormcell.spec.errors import HostError, NoSpace, StormcellError
from stormcell.spec.expansion import Execution
from stormcell.spec.home import Home
from stormcell.template.model import Template

LOOK_S = 0.25
"""Between two looks at how much memory the runs use."""
PATIENCE_S = 600.0
"""How long to wait for memory or disk that others hold, while nothing of ours runs that could give some back."""
RETRIES = 3
"""A machine that could not be made for want of something is asked for again so often."""


@dataclass(frozen=True)
class Task:
    """One run and the experiment that it performs."""

    execution: Execution
    loaded: Loaded

    @property
    def id(self) -> str:
        """The run's id."""
        return self.execution.id


class Watch(Protocol):
    """Told what happens, as it happens."""

    def left(self, runs: Sequence[str]) -> None:
        """These are to be run now; what is not among them had come to an end in an earlier session."""

    def began(self, task: Task, running: int) -> Callable[[Mapping[str, Any]], None]:
        """A run begins; what is returned hears its events."""

    def ended(self, task: Task, verdict: str, why: str, seconds: float) -> None:
        """A run came to an end."""

    def undone(self, task: Task, why: str) -> None:
        """A run was stopped, its machine released; it may be run again."""

    def waits(self, why: str) -> None:
        """Nothing can begin just now."""

    def judges(self, runs: int) -> None:
        """So many runs are now judged together; of thousands that takes a while."""


@dataclass
class _Running:
    task: Task
    template: Template
    promised: Need
    machine: int = 0
    sandbox: str = ""
    peak: int = 0


@dataclass
class Executor:
    """Performs tasks. `stopped` is set by fail-fast; what had not begun by then stays unfinished."""

    home: Home
    folder: CampaignFolder
    ledger: Ledger
    templates: Mapping[str, Template]
    jobs: int
    fail_fast: bool
    watch: Watch
    retry_unknown: bool = False
    patience: float = PATIENCE_S
    conduct: Conduct = Conductor
    stopped: str = ""
    most_at_once: int = 0
    _running: dict[asyncio.Task[None], _Running] = field(default_factory=dict)
    _refused: dict[str, int] = field(default_factory=dict)

    async def perform(self, tasks: Sequence[Task]) -> None:
        """Until each came to an end, or one failed and `fail_fast` is set. Those that had finished are not run again.

        Cancelling undoes what is under way and gives it back to the ledger. Raises HostError for what never fits.
        """
        for task in tasks:
            self._settle(task)
        waiting = deque(task for task in tasks if self.ledger.entry(task.id).state == "free")
        self.watch.left([task.id for task in waiting])
        promises = Promises(self.home)
        idle_since = time.monotonic()
        try:
            while (waiting and not self.stopped) or self._running:
                started = True
                while started and waiting and not self.stopped and len(self._running) < self.jobs:
                    started = self._begin(waiting, promises)
                if self._running:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > self.patience:
                    raise HostError(
                        f"there was no room for a run for {self.patience:g} s",
                        rule=self._why(waiting[0], promises),
                        remedy="end what else uses this host, then resume",
                    )
                await self._look(waiting, promises)
        finally:
            await self._undo()
            promises.tell()

    def _settle(self, task: Task) -> None:
        """What a session that died had begun; and, if that was asked for, what is to run once more."""
        settle(self.ledger, self.folder, task.id, task.loaded)
        facts = self.ledger.entry(task.id).facts
        if self.retry_unknown and facts and facts.get("verdict") == "unknown":
            self.ledger.reopen(task.id, "its outcome was unknown, and it was asked for again")

    def _begin(self, waiting: deque[Task], promises: Promises) -> bool:
        """Begin the first of those waiting, if there is room for it now."""
        task = waiting[0]
        template = self.templates[str(task.loaded.recipe)]
        need = Need(growth.expected(template, self.home))
        with promises.settled() as promised:
            answer = means.decide(need, promised, means.look(self.home.state))
            if answer.decision == "go":
                promises.promise(task.id, need)
        if answer.decision == "never":
            raise HostError(
                f"this host can never run '{task.execution.cell.name}': {answer.why}",
                rule="each run needs its memory and disk beside what the host itself needs",
                remedy="give the template less memory, or set STORMCELL_HOME to a larger disk",
            )
        if answer.decision == "wait":
            self.watch.waits(answer.why)
            return False
        waiting.popleft()
        running = _Running(task, template, need)
        work = asyncio.create_task(self._one(running, waiting, promises))
        self._running[work] = running
        self.most_at_once = max(self.most_at_once, len(self._running))
        return True

    async def _one(self, running: _Running, waiting: deque[Task], promises: Promises) -> None:
        task, began = running.task, time.monotonic()
        attempt = self.ledger.claim(task.id)
        tell = self.watch.began(task, len(self._running))

        def heard(event: Mapping[str, Any]) -> None:
            if event.get("event") == "created":
                running.sandbox = str(event.get("sandbox"))
                running.machine = self._machine(running.sandbox)
            self._measure(running)
            tell(event)

        error: StormcellError | None = None
        try:
            await run_async(
                task.loaded,
                seed=task.execution.seed,
                home=self.home,
                runs=self.folder.attempt(task.id, attempt),
                template=running.template,
                on_event=heard,
                conduct=self.conduct,
            )
        except asyncio.CancelledError:
            why = self.stopped or "interrupted"
            self._release(task, why)
            self.watch.undone(task, why)
            return  # nothing is cancelled but by this executor, which waits for it
        except StormcellError as problem:
            error = problem
        finally:
            promises.forget(task.id)
        if isinstance(error, HostError) and not running.sandbox and self._refused.get(task.id, 0) < RETRIES:
            self._refused[task.id] = self._refused.get(task.id, 0) + 1
            self.ledger.release(task.id, error.what)
            self.watch.undone(task, error.what)
            waiting.append(task)
            return
        self._end(running, attempt, error, time.monotonic() - began)

    def _end(self, running: _Running, attempt: int, error: StormcellError | None, seconds: float) -> None:
        task = running.task
        run = self.folder.run_of(task.id, attempt)
        result = saved(run)
        if result is None or run is None:
            # nothing was written, not even that it was lost: the host itself is at fault, and says why
            self._release(task, error.what if error else "it left no result")
            raise error or NoSpace("the run left no result", where=str(self.folder.attempts(task.id)))
        growth.remember(running.template, self.home, running.peak)
        more = {"seconds": round(seconds, 3), "memory": running.peak}
        self.ledger.finish(task.id, facts(self.folder, run, result, **more))
        why = result.reasons[0].text if result.reasons else ""
        self.watch.ended(task, result.verdict.value, why, seconds)
        if self.fail_fast and result.verdict == "failed" and not self.stopped:
            self.stopped = f"'{task.execution.cell.name}' failed, and the first failure ends this campaign"
            for work, other in self._running.items():
                if other is not running:
                    work.cancel()

    def _release(self, task: Task, why: str) -> None:
        try:
            self.ledger.release(task.id, why)
        except NoSpace:
            pass  # it stays claimed; whoever resumes finds its result, which says that it was interrupted

    async def _look(self, waiting: Sequence[Task], promises: Promises) -> None:
        """Wait until a run ended or a moment passed; measure what runs."""
        works = set(self._running)
        if works:
            done, _ = await asyncio.wait(works, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        else:
            done = set()
            if waiting:
                await asyncio.sleep(LOOK_S)
        for running in self._running.values():
            now = self._measure(running)
            promises.used(running.task.id, Need(now, self._disk(running)))
        promises.tell()
        for work in done:
            del self._running[work]
            if not work.cancelled() and (problem := work.exception()) is not None:
                raise problem

    def _measure(self, running: _Running) -> int:
        now = growth.private_bytes(running.machine) if running.machine else 0
        running.peak = max(running.peak, now)
        return now

    def _machine(self, sandbox: str) -> int:
        try:
            record = Record.read(self.home.sandboxes / sandbox)
        except RecordTorn:
            return 0
        return record.machine.pid if record and record.machine else 0

    def _disk(self, running: _Running) -> int:
        try:
            info = (self.home.sandboxes / running.sandbox / "disk.qcow2").stat()
        except OSError:
            return 0
        return min(info.st_blocks * 512, admission.DISK_OF_ONE) if running.sandbox else 0

    def _why(self, task: Task, promises: Promises) -> str:
        need = Need(growth.expected(self.templates[str(task.loaded.recipe)], self.home))
        with promises.settled() as promised:
            return means.decide(need, promised, means.look(self.home.state)).why

    async def _undo(self) -> None:
        """End what is under way; each run releases its machine and writes its result."""
        for work in self._running:
            work.cancel()
        while self._running:
            done, _ = await asyncio.shield(asyncio.wait(set(self._running)))
            for work in done:
                self._running.pop(work)
                work.cancelled() or work.exception()
