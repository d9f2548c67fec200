"""What a sealed run's folder holds beyond a live one's, so that it can be repeated anywhere: a few KB.

sealed.json     the seed, the template with all that it is a function of, the digest of the events, and both times
recipe.json     the template's recipe, with its files
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from stormcell.engine.folder import RunFolder
from stormcell.engine.sealed.conduct import HandOver
from stormcell.judge.wording import seconds as duration
from stormcell.spec.errors import SpecError
from stormcell.spec.files import read_regular
from stormcell.spec.plan import Plan
from stormcell.spec.recipe import Recipe
from stormcell.spec.value import Value
from stormcell.template.sealed import SealedTemplate

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SEALED, RECIPE, EVENTS = "sealed.json", "recipe.json", "events.jsonl"


class Drive(Value):
    """How a machine came to the instant at which another run begins: a plan with its seed, up to its fork or a place.

    The place is behind the guest's event number `event`, from 0, or the first stop at or after `seconds` of the run.
    Then its runner is handed over: what it began was undone, or kept. `before` is the drive that this one went on from.
    """

    plan: Plan
    seed: int
    event: int | None = None
    seconds: Seconds | None = None
    hand_over: HandOver | None = None
    before: Drive | None = None

    @property
    def kept(self) -> int:
        """How many faults of those plans may be in force at its end; the next one counts its own from there."""
        return (len(self.plan.faults) if self.hand_over == "keep" else 0) + (self.before.kept if self.before else 0)


class Sealed(Value):
    """sealed.json. Both times are 0 until the run ended; `drive` is set for a run that began at an instant."""

    format: Literal[1] = 1
    seed: int
    template: str
    snapshot: str
    inputs: dict[str, Any]
    packages: tuple[str, ...] = ()
    events_sha256: str = ""
    guest_seconds: Seconds = 0.0
    host_seconds: Seconds = 0.0
    began: str = ""
    """On the host's clock: ISO 8601, UTC."""
    evidence: dict[str, Any] | None = None
    drive: Drive | None = None

    @classmethod
    def unknown(cls, plan: Plan) -> Sealed:
        """Of a folder whose sealed.json is lost: what the plan says."""
        return cls(seed=plan.seed, template=plan.template_digest, snapshot="", inputs={})

    @property
    def ratio(self) -> float:
        """Guest seconds in one of the host's."""
        return self.guest_seconds / self.host_seconds if self.host_seconds else 0.0

    @property
    def sentence(self) -> str:
        """Both times and how many of the one are in one of the other; a star marks guest time."""
        if not self.host_seconds:
            return f"seed {self.seed}; it did not come to its end"
        guest, host = duration(self.guest_seconds), duration(self.host_seconds)
        return f"seed {self.seed}; {guest}* of guest time in {host} of the host's, {self.ratio:.3g} to 1"

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: what a reader of results asks for."""
        return {
            "seed": self.seed,
            "guest_seconds": round(self.guest_seconds, 6),
            "host_seconds": round(self.host_seconds, 6),
            "ratio": round(self.ratio, 3),
            "events_sha256": self.events_sha256,
            "snapshot": self.snapshot,
        }


def digest_of(events: Path) -> str:
    """sha256 of an event log (hex); of nothing when there is none."""
    try:
        return hashlib.sha256(read_regular(events)).hexdigest()
    except OSError:
        return hashlib.sha256(b"").hexdigest()


def about(template: SealedTemplate, seed: int, drive: Drive | None = None) -> Sealed:
    """As it is before the run."""
    return Sealed(
        seed=seed,
        template=template.digest,
        snapshot=template.snapshot,
        inputs=dict(template.inputs),
        packages=tuple(template.manifest.get("packages", ())),
        began=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        drive=drive,
    )


def write(folder: RunFolder, sealed: Sealed) -> None:
    """Replace sealed.json."""
    folder.write_json(SEALED, sealed.model_dump(mode="json"))


def write_recipe(folder: RunFolder, recipe: Recipe) -> None:
    """recipe.json. Raises SpecError for a file of the recipe that cannot be read."""
    contents = {path: base64.b64encode(data).decode() for path, data in recipe.contents().items()}
    folder.write_json(RECIPE, {"recipe": recipe.model_dump(mode="json"), "contents": contents})


def read(folder: Path) -> Sealed:
    """Raises SpecError when this is no sealed run's folder, or sealed.json is damaged."""
    found = _json(folder, SEALED)
    try:
        return Sealed.model_validate(found)
    except ValidationError as error:
        raise damaged(folder / SEALED, error) from error


def known(folder: Path) -> Sealed | None:
    """The same for whoever only tells of it: None when it is not there or damaged."""
    try:
        return read(folder)
    except SpecError:
        return None


def read_recipe(folder: Path) -> tuple[Recipe, dict[str, bytes]]:
    """The recipe with its files. Raises SpecError."""
    found = _json(folder, RECIPE)
    try:
        contents = {str(path): base64.b64decode(text, validate=True) for path, text in found["contents"].items()}
        return Recipe.model_validate(found["recipe"]), contents
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise damaged(folder / RECIPE, error) from error


def read_log(folder: Path) -> bytes | None:
    """The event log, None when it did not come along. Raises SpecError for what cannot be read."""
    try:
        return read_regular(folder / EVENTS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpecError(
            f"{EVENTS} cannot be read ({error.strerror})",
            where=str(folder / EVENTS),
            rule="a replay compares with the recorded log, or with its digest when the log is not there",
            remedy="take it out of the folder, or make it readable",
        ) from error


def _json(folder: Path, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads(read_regular(folder / name))
    except OSError as error:
        missing = f"{name} cannot be read" if folder.is_dir() else "no folder"
        raise SpecError(
            f"this is no folder of a sealed run: {missing} ({error.strerror})",
            where=str(folder),
            rule="a sealed run is repeated from its folder, which has sealed.json and recipe.json",
            remedy="give the folder that `stormcell run --sealed` named at its end",
        ) from error
    except (ValueError, RecursionError) as error:
        raise damaged(folder / name, error) from error
    if not isinstance(found, dict):
        raise damaged(folder / name, TypeError("it is no object"))
    return found


def damaged(path: Path, error: Exception) -> SpecError:
    """Of a file of such a folder that does not say what it should."""
    first = error.errors()[0] if isinstance(error, ValidationError) else None
    why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else f"{type(error).__name__}: {error}"
    return SpecError(
        f"{path.name} is damaged ({why})",
        where=str(path),
        rule="a sealed run is repeated from the files that it wrote, as it wrote them",
        remedy="take the folder from where it was kept, or run the experiment again with `--sealed --seed`",
    )
