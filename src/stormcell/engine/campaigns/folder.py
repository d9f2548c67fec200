"""A campaign's folder: everything needed to go on with it after a crash, and to compute its result again.

campaign.yaml   the file as it was (if there was one)
spec.json       what was asked, complete: the campaign with its experiment, the seed, the templates' digests
ledger.jsonl    which run was begun and which came to an end
runs/ID/N/      the N-th attempt at a run, in it the run's own folder
setup/          of a search: the setup that its runs were forked from
result.json     the matrix
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.engine.campaigns.load import LoadedCampaign, load_campaign, repeated
from stormcell.machine.durable import write_atomically
from stormcell.spec.errors import NoPermission, NoSpace, SpecError, TemplateError
from stormcell.spec.files import read_regular
from stormcell.spec.home import Home, private_folder
from stormcell.spec.matrix import CampaignResult
from stormcell.spec.yamlfile import Document

FORMAT = 1


@dataclass(frozen=True)
class CampaignFolder:
    """Where a campaign keeps all it knows."""

    path: Path

    @property
    def ledger(self) -> Path:
        """Its ledger."""
        return self.path / "ledger.jsonl"

    def attempts(self, execution: str) -> Path:
        """The folder of the attempts at one run."""
        return self.path / "runs" / execution

    def attempt(self, execution: str, number: int) -> Path:
        """The folder in which the run of this attempt makes its own."""
        return self.attempts(execution) / str(number)

    def run_of(self, execution: str, number: int) -> Path | None:
        """The run's own folder, if it came to that."""
        place = self.attempt(execution, number)
        found = sorted(entry for entry in place.iterdir() if entry.is_dir()) if place.is_dir() else []
        return found[-1] if found else None

    def save_result(self, result: CampaignResult) -> None:
        """Replace result.json."""
        self._write("result.json", json.dumps(result.model_dump(mode="json"), indent=1) + "\n")

    def _write(self, name: str, text: str) -> None:
        try:
            write_atomically(self.path / name, text)
        except OSError as error:
            raise NoSpace(
                f"cannot be written ({error.strerror})", where=str(self.path / name), remedy="make room, then resume"
            ) from error


def create(
    folder: Path, campaign: LoadedCampaign, seed: int, templates: Mapping[str, str], experiments: Sequence[Any] = ()
) -> CampaignFolder:
    """A new one below `folder`, complete before anything runs. Raises NoPermission, NoSpace."""
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{campaign.campaign.campaign}-{secrets.token_hex(3)}"
    path = private_folder(folder) / name
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise NoPermission(f"the folder cannot be made ({error.strerror})", where=str(path)) from error
    made = CampaignFolder(path)
    if campaign.text:
        made._write("campaign.yaml", campaign.text)
    document = campaign.campaign.model_dump(mode="json", exclude_none=True)
    spec = {
        "format": FORMAT,
        "campaign": {**document, "experiment": campaign.base.data},
        "experiments": list(experiments),
        "folder": str(campaign.folder.absolute()),
        "seed": seed,
        "templates": dict(templates),
    }
    made._write("spec.json", json.dumps(spec, indent=1) + "\n")
    return made


@dataclass(frozen=True)
class Kept:
    """A campaign read back."""

    folder: CampaignFolder
    campaign: LoadedCampaign
    seed: int
    templates: Mapping[str, str]


def reopen(path: Path, home: Home) -> Kept:
    """A campaign that was begun. Raises SpecError for what is no campaign's folder."""
    file = path / "spec.json"
    try:
        spec = json.loads(read_regular(file))
        data, seed, folder = dict(spec["campaign"]), int(spec["seed"]), Path(spec["folder"])
        templates = {str(name): str(digest) for name, digest in spec["templates"].items()}
        experiments = list(spec["experiments"])
        if spec["format"] != FORMAT:
            raise ValueError(f"its format is {spec['format']}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise SpecError(
            f"this is no campaign's folder: spec.json cannot be read ({why})",
            where=str(path),
            remedy="give the folder that `stormcell run` named at its end",
        ) from error
    if experiments:
        documents = [(Document(item, str(file)), Path("/")) for item in experiments]
        campaign = repeated(documents, str(data["campaign"]), int(data["repeats"]), home)
    else:
        campaign = load_campaign(Document(data, str(file)), folder, home)
    return Kept(CampaignFolder(path), campaign, seed, templates)


def check_templates(kept: Mapping[str, str], now: Mapping[str, str], where: Path) -> None:
    """Raises TemplateError when a template is not the one that the campaign began with."""
    for name, digest in now.items():
        if kept.get(name, digest) != digest:
            raise TemplateError(
                f"the template '{name}' has changed since this campaign began",
                where=str(where),
                rule="all runs of a campaign start from the same bits",
                remedy="begin the campaign anew, or put the recipe back as it was",
            )
