"""JSON schemas, from the models that validate. The experiment's holds every fault of the catalogue."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from stormcell.faults import CATALOGUE
from stormcell.spec.campaign import Campaign
from stormcell.spec.experiment import Experiment
from stormcell.spec.fault import Fault
from stormcell.spec.matrix import CampaignResult
from stormcell.spec.plan import Plan
from stormcell.spec.probe import METRICS
from stormcell.spec.recipe import Recipe
from stormcell.spec.verdict import Result

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(what: str) -> dict[str, Any]:
    """`experiment`, `campaign`, `recipe`, `plan`, `result` or `campaign-result`."""
    models: dict[str, type[BaseModel]] = {
        "recipe": Recipe,
        "plan": Plan,
        "result": Result,
        "campaign": Campaign,
        "campaign-result": CampaignResult,
    }
    body = _experiment() if what == "experiment" else models[what].model_json_schema()
    return published(what, body)


def published(what: str, body: dict[str, Any]) -> dict[str, Any]:
    """With its dialect and its title."""
    return {"$schema": DIALECT, "title": f"Stormcell {what}", **{k: v for k, v in body.items() if k != "title"}}


def _pairs(fault: type[Fault]) -> dict[str, Any]:
    """What the engine reads before the fault does (engine/nodes.py)."""
    if not {"node", "address"} <= fault.model_fields.keys():
        return {}
    name = {"type": "string"}
    peers = {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}]}
    found: dict[str, Any] = {"to": {**peers, "description": "Only what goes between `node` and these nodes."}}
    if "direction" in fault.model_fields:
        pair = {"type": "array", "items": name, "minItems": 2, "maxItems": 2}
        found["between"] = {**pair, "description": "Both ways between two nodes."}
    return found


def _experiment() -> dict[str, Any]:
    body = Experiment.model_json_schema()
    definitions: dict[str, Any] = body.setdefault("$defs", {})
    names = []
    for kind, fault in sorted(CATALOGUE.items()):
        model = fault.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(model.pop("$defs", {}))
        model["properties"] = {"kind": {"const": kind}, **model.get("properties", {}), **_pairs(fault)}
        model["required"] = ["kind", *model.get("required", [])]
        definitions[f"fault.{kind}"] = model
        names.append({"$ref": f"#/$defs/fault.{kind}"})
    body["properties"]["fault"] = {"oneOf": names, "description": "The one disturbance of this experiment."}
    branch = definitions["Branch"]
    branch["properties"]["fault"] = {"oneOf": names, "description": "The one disturbance of this branch."}
    definitions["Branch"] = {"anyOf": [*names, branch], "description": branch.pop("description", "")}
    probe = definitions["Probe"]["properties"]
    metrics = sorted({metric for known in METRICS.values() for metric in known})
    bound = {"type": ["string", "number", "boolean"]}
    bounds = {
        "type": "object",
        "propertyNames": {"enum": metrics},
        "additionalProperties": {"anyOf": [bound, {"type": "array", "items": bound}]},
    }
    for field in ("expect", "under_fault", "recovered"):
        probe[field] = {**bounds, "description": f"Bounds on the probe's metrics ({field})."}
    probe["expect"]["minProperties"] = 1
    definitions["Probe"]["required"] = ["name", "expect"]
    return body
