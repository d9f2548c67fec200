"""The base of all that is written down: frozen, complete, and helpful about a wrong field name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

MOST_KNOWN = 30
"""Names that are listed when none is near."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for a near miss, else the list of what there is, if anything."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    if not names:
        return "there are none"
    more = f" and {len(names) - MOST_KNOWN} more" if len(names) > MOST_KNOWN else ""
    return f"known: {', '.join(names[:MOST_KNOWN])}{more}"


def wrong_at(text: str, *path: str | int) -> PydanticCustomError:
    """To raise in a validator of a whole record: `path` leads from it to the field that is meant."""
    return PydanticCustomError("wrong_at", "{text}", {"text": text, "path": path})


class Value(BaseModel):
    """A frozen record. An unknown field is an error that names the nearest known one."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_field(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            known = {field.alias or name for name, field in cls.model_fields.items()} | set(cls.model_fields)
            for key in data:
                if key not in known:
                    visible = {field.alias or name for name, field in cls.model_fields.items()}
                    raise PydanticCustomError(
                        "unknown_field",
                        "unknown field '{field}'; {hint}",
                        {"field": str(key), "hint": nearest(str(key), visible)},
                    )
        return data
