"""Running a campaign, from Python and for the command line; going on with one that was interrupted or killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stormcell.engine.api import judge_folder, saved_result
from stormcell.engine.campaigns import means
from stormcell.engine.campaigns.executor import Executor, Task, Watch
from stormcell.engine.campaigns.folder import CampaignFolder, check_templates, create, reopen
from stormcell.engine.campaigns.gather import gather
from stormcell.engine.campaigns.load import LoadedCampaign, LoadedCell, load_campaign
from stormcell.engine.campaigns.quiet import Quiet
from stormcell.engine.campaigns.recovery import sweep
from stormcell.engine.campaigns.search import Search
from stormcell.ledger.journal import Journal
from stormcell.spec import yamlfile
from stormcell.spec.errors import StormcellError
from stormcell.spec.expansion import Execution
from stormcell.spec.home import Home
from stormcell.spec.matrix import CampaignResult
from stormcell.spec.verdict import Verdict
from stormcell.spec.yamlfile import Document
from stormcell.template.build import build
from stormcell.template.model import Progress, Template

OnBuild = Callable[[Progress], None]


@dataclass(frozen=True)
class Settings:
    """What may differ each time that a campaign is gone on with. None: as its file has it."""

    jobs: int | None = None
    fail_fast: bool | None = None
    retry_unknown: bool = False
    """Run those once more whose outcome is unknown or was lost."""


@dataclass(frozen=True)
class CampaignOutcome:
    """The answer of a campaign, and where all it rests on is kept."""

    result: CampaignResult
    folder: Path

    @property
    def verdict(self) -> Verdict:
        """`survived`, `failed`, `void` or `unknown`."""
        return self.result.verdict

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**self.result.model_dump(mode="json"), "folder": str(self.folder)}


@dataclass
class CampaignRun:
    """One session of a campaign: from its beginning, or from where the last one stopped. Use once."""

    campaign: LoadedCampaign
    home: Home
    seed: int = 0
    settings: Settings = Settings()
    kept: CampaignFolder | None = None
    """Of an earlier session."""
    digests: Mapping[str, str] = field(default_factory=dict)
    below: Path | None = None
    """Where to make the folder of a new one."""
    watch: Watch = field(default_factory=Quiet)
    on_build: OnBuild = lambda _: None
    outcome: CampaignOutcome | None = None
    """Set at the end, also of a session that was interrupted."""

    @property
    def jobs(self) -> int:
        """Runs at once at most."""
        return self.settings.jobs or self.campaign.campaign.jobs or means.processors()

    @property
    def fail_fast(self) -> bool:
        """Whether the first failure ends it."""
        asked = self.settings.fail_fast
        return self.campaign.campaign.fail_fast if asked is None else asked

    @property
    def planned(self) -> list[tuple[LoadedCell, Execution]]:
        """Every run that is known beforehand, in the order in which they are begun."""
        cells = {item.cell.name: item for item in self.campaign.cells}
        return [(cells[run.cell.name], run) for run in self.campaign.executions(self.seed)]

    async def perform(self) -> CampaignOutcome:
        """To the end. Raises what `run` raises, and HostError when another process is at work on it.

        Cancelling undoes what is under way, keeps the result so far, and raises CancelledError: it can be resumed.
        """
        templates = await self._templates()
        digests = {template.name: template.digest for template in templates.values()}
        if self.kept is None:
            below = self.below or self.home.campaigns
            self.kept = create(below, self.campaign, self.seed, digests, self._plain())
        else:
            check_templates(self.digests, digests, self.kept.path)
        with Journal.open(self.kept.ledger) as ledger:
            await asyncio.to_thread(sweep, self.kept, self.home)
            return await self._perform(self.kept, ledger, templates)

    async def _perform(
        self, folder: CampaignFolder, ledger: Journal, templates: Mapping[str, Template]
    ) -> CampaignOutcome:
        executor = Executor(
            self.home, folder, ledger, templates, self.jobs, self.fail_fast, self.watch, self.settings.retry_unknown
        )
        find = self.campaign.campaign.find
        search = Search(self.campaign, find, ledger, folder, self.seed, self.home) if find is not None else None
        stopped = "interrupted"
        try:
            if search is not None:
                await search.perform(executor)
            else:
                executor.stopped = self._failed_before(ledger)
                await executor.perform([Task(run, item.loaded) for item, run in self.planned])
            stopped = executor.stopped
        except StormcellError as error:
            stopped = error.what
            raise
        finally:
            runs = search.runs if search is not None else self.planned
            self.watch.judges(len(runs))
            result = gather(
                self.campaign,
                runs,
                ledger,
                folder,
                search=search.answer(stopped) if search is not None else None,
                info={
                    "seed": self.seed,
                    "jobs": self.jobs,
                    "most_at_once": executor.most_at_once,
                    "crowded": executor.most_at_once > means.processors(),
                    "forked": search is not None and search.forked,
                    "stopped": stopped,
                },
            )
            self.outcome = CampaignOutcome(result, folder.path)
            folder.save_result(result)
        return self.outcome

    async def _templates(self) -> dict[str, Template]:
        recipes = {str(item.loaded.recipe): item.loaded.recipe for item in self.campaign.cells}
        return {key: await build(recipe, home=self.home, progress=self.on_build) for key, recipe in recipes.items()}

    def _failed_before(self, ledger: Journal) -> str:
        """With fail-fast, a failure of an earlier session ends this one before it begins."""
        failed = [name for name, entry in ledger.entries.items() if entry.facts and entry.facts["verdict"] == "failed"]
        return (
            "a run failed in an earlier session, and the first failure ends this campaign"
            if (self.fail_fast and failed)
            else ""
        )

    def _plain(self) -> list[Any]:
        """Of a campaign over plain experiments: each one's data."""
        if self.campaign.axes and self.campaign.axes[0].name == "experiment" and not self.campaign.axes[0].path:
            return [item.cell.data for item in self.campaign.cells]
        return []


async def run_campaign_async(
    campaign: Path | str | Mapping[str, Any],
    *,
    seed: int = 0,
    jobs: int | None = None,
    fail_fast: bool | None = None,
    home: Home | None = None,
    folder: Path | None = None,
    watch: Watch | None = None,
) -> CampaignOutcome:
    """Run a campaign, from its file or as a mapping of the same fields. `folder`: where it makes its own.

    Raises SpecError, HostError or TemplateError before anything was started. A cancelled or killed one is gone on with
    by `resume_campaign`.
    """
    home = home or Home.current()
    if isinstance(campaign, str | Path):
        loaded = load_campaign(yamlfile.load(Path(campaign), "campaign"), Path(campaign).parent, home)
    else:
        loaded = load_campaign(Document(campaign, "campaign"), Path.cwd(), home)
    settings = Settings(jobs, fail_fast)
    return await CampaignRun(loaded, home, seed, settings, below=folder, watch=watch or Quiet()).perform()


async def resume_campaign_async(
    folder: Path | str,
    *,
    jobs: int | None = None,
    fail_fast: bool | None = None,
    retry_unknown: bool = False,
    home: Home | None = None,
    watch: Watch | None = None,
) -> CampaignOutcome:
    """Go on with a campaign. What had finished is not run again; what was begun by a process that died is decided
    from what it left, and is `unknown` when that does not say how it ended. Raises as `run_campaign_async`.
    """
    settings = Settings(jobs, fail_fast, retry_unknown)
    return await resumed(Path(folder), settings, home or Home.current(), watch or Quiet()).perform()


def resumed(folder: Path, settings: Settings, home: Home, watch: Watch) -> CampaignRun:
    """The next session of a campaign. Raises SpecError."""
    kept = reopen(folder, home)
    return CampaignRun(kept.campaign, home, kept.seed, settings, kept=kept.folder, digests=kept.templates, watch=watch)


@dataclass(frozen=True)
class Again:
    """A campaign's result computed again from its folder. `saved` is None when it never wrote one."""

    result: CampaignResult
    saved: dict[str, Any] | None
    differing: tuple[str, ...]
    """Ids of runs whose events say something else than the ledger."""


def gathered(folder: Path, info: Mapping[str, Any], home: Home | None = None) -> CampaignResult:
    """The matrix from the ledger and the runs' folders, also of a campaign that is under way or was killed.

    `info` is what only its process knew (see `stormcell.judge.campaign`). Raises SpecError when it is damaged.
    """
    home = home or Home.current()
    kept = reopen(folder, home)
    ledger = Journal.read(kept.folder.ledger)
    runs, search = CampaignRun(kept.campaign, home, kept.seed).planned, None
    if kept.campaign.campaign.find is not None:
        traced = Search(kept.campaign, kept.campaign.campaign.find, ledger, kept.folder, kept.seed, home)
        traced.retrace()
        runs, search = traced.runs, traced.answer(str(info.get("stopped") or ""))
    return gather(kept.campaign, runs, ledger, kept.folder, search=search, info=info)


def judge_campaign(folder: Path, home: Home | None = None) -> Again:
    """The matrix, from what the campaign's folder holds and nothing else; every run is judged again, too.

    Raises SpecError when it is damaged.
    """
    saved = saved_result(folder)
    info = dict(saved["info"]) if saved and isinstance(saved.get("info"), dict) else {"stopped": "it wrote no result"}
    result = gathered(folder, info, home)
    lines = [line for cell in result.cells for line in cell.runs if line.state == "finished"]
    differing = tuple(line.id for line in lines if judge_folder(Path(line.folder)).verdict != line.verdict)
    return Again(result, saved, differing)


def run_campaign(campaign: Path | str | Mapping[str, Any], **options: Any) -> CampaignOutcome:
    """`run_campaign_async` for code without an event loop."""
    return asyncio.run(run_campaign_async(campaign, **options))


def resume_campaign(folder: Path | str, **options: Any) -> CampaignOutcome:
    """`resume_campaign_async` for code without an event loop."""
    return asyncio.run(resume_campaign_async(folder, **options))
