"""The model as JSON, and the schema of it: `stormcell schema report`."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from stormcell.report.model import Report

_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


def json_text(report: Report) -> str:
    """A whole JSON file; `schema` in it says which schema it follows."""
    return json.dumps(_REPORT.dump_python(report, mode="json"), indent=1) + "\n"


def report_schema() -> dict[str, Any]:
    """The JSON schema of report.json."""
    return _REPORT.json_schema(mode="serialization")


def read_report(text: str) -> Report:
    """The model again. Raises pydantic's ValidationError, a ValueError."""
    return _REPORT.validate_json(text)
