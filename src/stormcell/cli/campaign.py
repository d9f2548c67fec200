"""Campaigns on the command line: `stormcell run` with a campaign's file, with --repeat, or with --resume."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormcell.cli.interrupt import ended_once
from stormcell.cli.output import emit_json, report_error, safe, say

if TYPE_CHECKING:
    from stormcell.engine.campaigns.api import CampaignRun
    from stormcell.engine.campaigns.load import LoadedCampaign
    from stormcell.spec.errors import StormcellError
    from stormcell.spec.yamlfile import Document


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    seed: int
    repeat: int
    jobs: int | None
    fail_fast: bool | None
    retry_unknown: bool
    runs: Path | None
    dry_run: bool
    markdown: bool
    as_json: bool


def campaigns_of(files: Sequence[Path], resume: Path | None, asked: Asked) -> Campaigns | None:
    """What is to run as campaigns; None when these are plain experiments, each to run once.

    Plain experiments beside a campaign's file, or with --repeat, are a campaign of their own.
    """
    from stormcell.engine.campaigns.api import Settings, resumed
    from stormcell.engine.campaigns.load import is_campaign
    from stormcell.engine.campaigns.quiet import Quiet
    from stormcell.spec.home import Home

    if resume is not None:
        settings = Settings(asked.jobs, asked.fail_fast, asked.retry_unknown)
        return Campaigns(asked, [resumed(resume, settings, Home.current(), Quiet())])
    documents = _read(files)
    if asked.repeat == 1 and not any(is_campaign(document) for document, _ in documents):
        return None
    loaded = _checked(documents, asked)
    return Campaigns(asked, [_session(item, asked) for item in loaded])


def _session(loaded: LoadedCampaign, asked: Asked) -> CampaignRun:
    from stormcell.engine.campaigns.api import CampaignRun, Settings
    from stormcell.spec.home import Home

    settings = Settings(asked.jobs, asked.fail_fast)
    return CampaignRun(loaded, Home.current(), asked.seed, settings, below=asked.runs)


def _read(files: Sequence[Path]) -> list[tuple[Document, Path]]:
    """What can be read; the errors of the rest come from whoever checks them."""
    from stormcell.spec import yamlfile
    from stormcell.spec.errors import StormcellError

    found = []
    for file in files:
        try:
            found.append((yamlfile.load(file, "experiment"), file.parent))
        except StormcellError:
            found.append((yamlfile.Document({}, str(file)), file.parent))
    return found


def _checked(documents: Sequence[tuple[Document, Path]], asked: Asked) -> list[LoadedCampaign]:
    """All of them, or the errors of all and nothing started."""
    from stormcell.engine.campaigns.load import is_campaign, load_campaign, repeated
    from stormcell.spec import yamlfile
    from stormcell.spec.errors import SpecError, StormcellError

    loaded, plain, errors = [], [], list[StormcellError]()
    for document, folder in documents:
        try:
            if not document.data:
                yamlfile.load(Path(document.source), "experiment")  # raises what was wrong with it
            if not is_campaign(document):
                repeated([(document, folder)], "check", 1)
                plain.append((document, folder))
            elif asked.repeat > 1:
                raise SpecError(
                    "--repeat is for plain experiments",
                    where=document.where(("campaign",)),
                    remedy="write 'repeats' into the campaign",
                )
            else:
                loaded.append(load_campaign(document, folder))
        except StormcellError as error:
            errors.append(error)
    try:
        if plain and not errors:
            name = str(plain[0][0].data["name"]) if len(plain) == 1 else "experiments"
            loaded.append(repeated(plain, name, asked.repeat))
    except StormcellError as error:
        errors.append(error)
    if errors:
        for one in errors:
            report_error(one)
        say("nothing was started")
        sys.exit(2)
    return loaded


@dataclass
class Campaigns:
    """The campaigns of one command, one after another."""

    asked: Asked
    sessions: list[CampaignRun]
    errors: list[StormcellError] = field(default_factory=list)
    interrupted: bool = False

    def run(self) -> int:
        """Run, show, and return the exit code."""
        if self.asked.dry_run:
            self._show_plans()
            return 0
        try:
            ended_once(self._perform())
        except KeyboardInterrupt:
            self.interrupted = True
            say("interrupted; what had been started was undone and released")
        self._show()
        return self.exit_code()

    async def _perform(self) -> None:
        from stormcell.cli.campaign_progress import Follow
        from stormcell.spec.errors import StormcellError

        for session in self.sessions:
            with Follow(session) as follow:
                session.watch, session.on_build = follow, follow.build
                try:
                    await session.perform()
                except StormcellError as error:
                    self.errors.append(error)

    def exit_code(self) -> int:
        """One for all."""
        from stormcell.spec.verdict import EXIT_CODE, Verdict, exit_code

        codes = [EXIT_CODE[session.outcome.verdict] for session in self.sessions if session.outcome]
        codes += [error.exit_code for error in self.errors]
        return exit_code([*codes, *[EXIT_CODE[Verdict.UNKNOWN]] * self.interrupted])

    def report(self, out: Path) -> int:
        """Write it, once all have run. One exit code for all, and for a report that could not be written."""
        from stormcell.cli.report import write_report
        from stormcell.spec.verdict import exit_code

        folders = [(session.kept.path, "") for session in self.sessions if session.kept]
        code = write_report(out, folders, [("", error) for error in self.errors], interrupted=self.interrupted)
        return exit_code([self.exit_code(), code]) if code else self.exit_code()

    def _show(self) -> None:
        from stormcell.cli.matrix import markdown, show

        outcomes = [session.outcome for session in self.sessions if session.outcome]
        for error in self.errors:
            report_error(error) if not self.asked.as_json else say(f"error: {error}")
        if self.asked.as_json:
            emit_json(
                {
                    "campaigns": [outcome.as_dict() for outcome in outcomes],
                    "errors": [error.as_dict() for error in self.errors],
                    "interrupted": self.interrupted,
                    "exit_code": self.exit_code(),
                }
            )
        for outcome in outcomes:
            if self.asked.markdown:
                click.echo(safe(markdown(outcome.result)))
            elif not self.asked.as_json:
                show(outcome.result, outcome.folder)
            if not outcome.result.complete:
                say(f"go on with: stormcell run --resume {outcome.folder}")
            if outcome.result.counts.get("lost") or outcome.result.counts.get("unknown"):
                say("runs whose outcome is unknown are run again only with --retry-unknown")

    def _show_plans(self) -> None:
        from stormcell.cli.matrix import plan_data, show_plan

        if self.asked.as_json:
            plans = [plan_data(session) for session in self.sessions]
            emit_json(plans if len(plans) > 1 else plans[0])
            return
        for session in self.sessions:
            show_plan(session)
