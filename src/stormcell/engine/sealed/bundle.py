"""What a sealed run's folder holds beyond a live one's, so that it can be repeated anywhere: a few KB.

sealed.json     the seed, the template with all that it is a function of, the digest of the events, and both times
recipe.json     the template's recipe, with its files
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stormcell.engine.folder import RunFolder
from stormcell.spec.errors import SpecError
from stormcell.spec.files import read_regular
from stormcell.spec.recipe import Recipe
from stormcell.spec.value import Value
from stormcell.template.sealed import SealedTemplate

SEALED, RECIPE, EVENTS = "sealed.json", "recipe.json", "events.jsonl"


class Sealed(Value):
    """sealed.json. `ratio` is guest time by host time; `from_instant` is set for a run that began in a fork."""

    format: int = 1
    seed: int
    template: str
    snapshot: str
    inputs: dict[str, Any]
    packages: tuple[str, ...] = ()
    events_sha256: str = ""
    guest_seconds: float = 0.0
    host_seconds: float = 0.0
    evidence: dict[str, Any] | None = None
    drive: dict[str, Any] | None = None
    """The plan of the drive to the instant that this run goes on from, and its seed."""

    @property
    def ratio(self) -> float:
        """Guest seconds in one of the host's."""
        return self.guest_seconds / self.host_seconds if self.host_seconds else 0.0


def digest_of(events: Path) -> str:
    """sha256 of an event log (hex); of nothing when there is none."""
    try:
        return hashlib.sha256(read_regular(events)).hexdigest()
    except OSError:
        return hashlib.sha256(b"").hexdigest()


def about(template: SealedTemplate, seed: int) -> Sealed:
    """As it is before the run."""
    return Sealed(
        seed=seed,
        template=template.digest,
        snapshot=template.snapshot,
        inputs=dict(template.inputs),
        packages=tuple(template.manifest.get("packages", ())),
    )


def write(folder: RunFolder, sealed: Sealed) -> None:
    """Replace sealed.json."""
    folder.write_json(SEALED, sealed.model_dump(mode="json"))


def write_recipe(folder: RunFolder, recipe: Recipe) -> None:
    """recipe.json. Raises SpecError for a file of the recipe that cannot be read."""
    contents = {path: base64.b64encode(data).decode() for path, data in recipe.contents().items()}
    folder.write_json(RECIPE, {"recipe": recipe.model_dump(mode="json"), "contents": contents})


def read(folder: Path) -> Sealed:
    """Raises SpecError when this is no sealed run's folder."""
    found = _json(folder, SEALED)
    try:
        return Sealed.model_validate(found)
    except ValidationError as error:
        raise _damaged(folder / SEALED, error) from error


def read_recipe(folder: Path) -> tuple[Recipe, dict[str, bytes]]:
    """The recipe with its files. Raises SpecError."""
    found = _json(folder, RECIPE)
    try:
        contents = {str(path): base64.b64decode(text, validate=True) for path, text in found["contents"].items()}
        return Recipe.model_validate(found["recipe"]), contents
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise _damaged(folder / RECIPE, error) from error


def _damaged(path: Path, error: Exception) -> SpecError:
    first = error.errors()[0] if isinstance(error, ValidationError) else None
    why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else f"{type(error).__name__}: {error}"
    return SpecError(f"{path.name} is damaged ({why})", where=str(path))


def _json(folder: Path, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads(read_regular(folder / name))
    except OSError as error:
        raise SpecError(
            f"this is no folder of a sealed run: {name} cannot be read ({error.strerror})",
            where=str(folder),
            remedy="give the folder that `stormcell run --sealed` named at its end",
        ) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(folder / name, error) from error
    if not isinstance(found, dict):
        raise SpecError(f"{name} is damaged", where=str(folder / name))
    return found
