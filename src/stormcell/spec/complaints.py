"""What pydantic finds wrong, in words of somebody who writes a spec: what is there, what is wanted, what to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from stormcell.spec.value import nearest

_NOUNS = {
    "string_type": "a text", "tuple_type": "a list", "list_type": "a list", "dict_type": "a mapping",
    "mapping_type": "a mapping", "model_type": "a mapping", "model_attributes_type": "a mapping",
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number",
    "bool_type": "true or false", "bool_parsing": "true or false",
}  # fmt: skip
_EXAMPLES = {
    "a list": "write [a, b], or each entry on a line of its own after '- '",
    "a mapping": "write {field: value}",
    "a whole number": "write for example 3",
    "a number": "write for example 0.5",
    "true or false": "write one of the two",
}
_MODELS = {
    "Schedule": "{lasts: 5s}", "Pulse": "{on: 1s, off: 2s, times: 3}", "Flap": "{on: [1s, 2s], off: 1s, times: 3}",
    "Ramp": "{parameter: delay, through: [10ms, 1s], each: 5s}", "Draw": "{within: 30s, lasts: 2s, times: 3}",
    "Setup": "{run: \"mkdir -p /srv/data\"}", "Load": "{name: users, run: \"python3 /opt/load.py\"}",
    "Recovery": "{within: 30s}", "Abort": "{probe: checkout, when: {success_rate: \"< 20%\"}}",
    "Probe": "{name: alive, command: {run: \"true\"}, expect: {exit_code: 0}}",
    "HttpProbe": "{url: \"http://127.0.0.1/\", rate: 5/s, for: 6s}", "CommandProbe": "{run: \"true\"}",
    "TcpProbe": "{address: \"127.0.0.1:80\"}", "FileProbe": "{path: /var/lib/app/ready}",
}  # fmt: skip
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$": "is no name: letters, digits and _ . - are allowed, at most 64, beginning "
    "with a letter or a digit; write for example slow-database",
    "^/": "is no absolute path; write for example /var/lib/app",
}


def complaint(first: ErrorDetails, others: Sequence[ErrorDetails] = ()) -> str:
    """One sentence about `first`; `others` are about other forms that the same field may have."""
    kind, value, context = first["type"], first["input"], first.get("ctx") or {}
    if kind in _NOUNS:
        wanted = list(dict.fromkeys(_NOUNS[e["type"]] for e in (first, *others) if e["type"] in _NOUNS))
        return _no_noun(value, wanted, str(context.get("class_name") or ""))
    if kind == "missing":
        return _missing(first)
    if kind in ("too_short", "too_long"):
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        return f"the list has {_count(context['actual_length'])}; it needs {bound}"
    if kind.startswith(("greater_than", "less_than")):
        (limit,) = (context[key] for key in ("ge", "gt", "le", "lt") if key in context)
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        (word,) = (words[key] for key in words if key in context)
        return f"{shown(value)} is out of range; it is {word} {limit}"
    if kind == "literal_error":
        return _no_choice(value, str(context["expected"]))
    if kind == "string_pattern_mismatch":
        pattern = str(context["pattern"])
        return f"{shown(value)} {_PATTERNS.get(pattern, f'does not look as it must: {pattern}')}"
    return first["msg"].removeprefix("Value error, ")


def shown(value: Any) -> str:
    """What was written, so that it is found again."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"'{value}'" if len(str(value)) <= 60 else f"'{str(value)[:57]}...'"


def _no_noun(value: Any, wanted: list[str], model: str) -> str:
    what = f"{shown(value)} is written where {' or '.join(wanted)} is wanted"
    if model in _MODELS:
        return f"{what}; write for example {_MODELS[model]}"
    if wanted == ["a text"]:
        plain = isinstance(value, int | float)
        return f"{what}; write it in quotes: '{value}'" if plain else what
    return f"{what}; {_EXAMPLES[wanted[0]]}" if wanted[0] in _EXAMPLES else what


def _missing(error: ErrorDetails) -> str:
    last = error["loc"][-1]
    if not isinstance(last, int):
        return f"the field '{last}' is missing"
    there = error["input"]
    have = _count(len(there)) if isinstance(there, list | tuple) else "too few entries"
    return f"the list has {have}; one more is needed"


def _no_choice(value: Any, expected: str) -> str:
    choices = [part.strip().strip("'") for part in expected.replace(" or ", ", ").split(",")]
    if len(choices) == 1:
        return f"{shown(value)} is written where only {choices[0]} is known"
    hint = nearest(value, choices) if isinstance(value, str) else f"known: {', '.join(choices)}"
    known = "" if hint.startswith("known") else f" (known: {', '.join(choices)})"
    return f"there is no choice {shown(value)}; {hint}{known}"


def _count(number: int) -> str:
    return "1 entry" if number == 1 else f"{number} entries"
