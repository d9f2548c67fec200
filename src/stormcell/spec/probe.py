"""Probes and the numbers they must meet.

A probe measures; a tolerance is a bound on one of its metrics. Durations are seconds inside, rates are 0 to 1.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from stormcell.spec.units import BYTES, SECONDS, Duration, Frequency, parse
from stormcell.spec.value import Value, nearest, wrong_at

Op = Literal["<=", ">=", "<", ">", "==", "!="]
_BOUND = re.compile(r"\s*(<=|>=|==|!=|<|>)?\s*(.+?)\s*\Z")


class Metric(NamedTuple):
    """What a metric is written in."""

    unit: Literal["ratio", "duration", "number", "size", "bool"]
    meaning: str


_LATENCY = {
    "success_rate": Metric("ratio", "share of attempts that succeeded"),
    "sent": Metric("number", "attempts made"),
    "p50": Metric("duration", "median latency of the attempts that were answered"),
    "p95": Metric("duration", "95th percentile of the same"),
    "p99": Metric("duration", "99th percentile of the same"),
    "max": Metric("duration", "largest of the same"),
}
METRICS: dict[str, dict[str, Metric]] = {
    "http": _LATENCY,
    "tcp": _LATENCY,
    "command": {
        "exit_code": Metric("number", "exit code; a command that ran into its timeout has none"),
        "number": Metric("number", "the number that the `number` pattern found in its output"),
        "matches": Metric("bool", "whether the `match` pattern was found in its output"),
        "seconds": Metric("duration", "how long it ran"),
    },
    "file": {
        "exists": Metric("bool", "whether the path is there"),
        "size": Metric("size", "bytes"),
        "matches": Metric("bool", "whether the `match` pattern was found in its first 1 MiB"),
    },
}


class Tolerance(Value):
    """`measured OP value` must hold."""

    metric: str
    op: Op
    value: float
    text: str
    """As it was written."""


def _bound(metric: str, unit: str, text: object) -> Tolerance:
    if isinstance(text, bool):
        return Tolerance(metric=metric, op="==", value=float(text), text=str(text).lower())
    if isinstance(text, int | float):
        text = f"== {text}"
    if not isinstance(text, str) or not (match := _BOUND.match(text)):
        example = {"ratio": ">= 99%", "duration": "<= 500ms", "size": ">= 1KiB", "bool": "true"}.get(unit, ">= 3")
        written = f"'{text}'" if isinstance(text, str) else "this"
        raise ValueError(f"{written} is no tolerance; write for example '{example}'")
    op, number = match[1] or "==", match[2]
    if unit == "bool":
        if number not in ("true", "false"):
            raise ValueError(f"{metric} is true or false, not '{number}'")
        value = float(number == "true")
    elif unit == "duration":
        value = parse(number, SECONDS, "a duration", "<= 500ms")
    elif unit == "size":
        value = parse(number, BYTES, "a size", ">= 1KiB")
    elif unit == "ratio":
        value = parse(number, {"%": 0.01}, "a rate", ">= 99%") if number.endswith("%") else _plain(number)
        if not 0 <= value <= 1:
            raise ValueError(f"'{text}': {metric} is between 0 and 1 (or 0% and 100%)")
    else:
        value = _plain(number)
    return Tolerance(metric=metric, op=op, value=value, text=f"{op} {number}")


def _plain(number: str) -> float:
    try:
        value = float(number)
    except ValueError as error:
        raise ValueError(f"'{number}' is no number; write for example '>= 3'") from error
    if not math.isfinite(value):
        raise ValueError(f"'{number}' is no bound: every number, or none, would meet it")
    return value


def tolerances(kind: str, expect: dict[str, Any]) -> tuple[Tolerance, ...]:
    """Bounds in the order written; a list under one metric is several bounds. Raises ValueError naming the metric."""
    found: list[Tolerance] = []
    for metric, bounds in expect.items():
        known = METRICS[kind]
        if metric not in known:
            raise ValueError(f"a {kind} probe has no metric '{metric}'; {nearest(metric, known)}")
        if bounds in ([], ()):
            raise ValueError(f"{metric}: the list of bounds is empty: nothing could fail")
        for bound in bounds if isinstance(bounds, list | tuple) else [bounds]:
            try:
                found.append(_bound(metric, known[metric].unit, bound))
            except ValueError as error:
                raise ValueError(f"{metric}: {error}") from error
    return tuple(found)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"'{text}' is no regular expression ({error})") from error
    return text


def _number_pattern(text: str) -> str:
    if re.compile(_pattern(text)).groups < 1:
        raise ValueError(f"'{text}' needs one group around the number, for example 'rows: ([0-9]+)'")
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]
NumberPattern = Annotated[str, AfterValidator(_number_pattern)]


def _not_empty(run: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if not run or not (run.strip() if isinstance(run, str) else run[0]):
        raise ValueError('there is no command; write for example "curl -sf http://127.0.0.1/"')
    return run


Run = Annotated[str | tuple[str, ...], AfterValidator(_not_empty)]
"""Shell text, or an argument list."""


class CommandProbe(Value):
    """Runs a program once. `number` is a pattern with one group; `match` is searched in its output."""

    run: Run
    number: NumberPattern | None = None
    match: Pattern | None = None
    user: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    timeout: Duration = 30.0


def _statuses(value: object) -> object:
    return [value] if isinstance(value, int) else value


class HttpProbe(Value):
    """Requests at a steady rate (open loop: a slow answer does not slow the sending), or `count` one after another.

    An attempt succeeds when an answer arrives within `timeout` and its status is in `status` (default: below 400).
    In `body`, `{n}` stands for the attempt's number and `{uuid}` for a fresh UUID.
    """

    url: str
    method: Literal["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"] = "GET"
    headers: dict[str, str] = Field(default_factory=dict)
    body: str | None = None
    rate: Frequency | None = None
    duration: Duration | None = Field(default=None, alias="for")
    count: int | None = Field(default=None, ge=1, le=100_000)
    timeout: Duration = 5.0
    status: Annotated[tuple[int, ...], BeforeValidator(_statuses)] = ()

    @model_validator(mode="after")
    def _amount(self) -> HttpProbe:
        return _check_amount(self)

    @model_validator(mode="after")
    def _address(self) -> HttpProbe:
        if not re.match(r"http://[^/\s]+(/\S*)?\Z", self.url):
            raise ValueError(f"'{self.url}' is no http:// address")
        try:
            parts = urlsplit(self.url)
            good = bool(parts.hostname) and parts.port != 0
        except ValueError as error:
            raise ValueError(f"'{self.url}' is no http:// address ({error})") from error
        if not good:
            raise ValueError(f"'{self.url}' is no http:// address: it needs a host, and a port of 1 to 65535 or none")
        return self


class TcpProbe(Value):
    """Connects and closes. An attempt succeeds when the handshake ends within `timeout`."""

    address: str
    rate: Frequency | None = None
    duration: Duration | None = Field(default=None, alias="for")
    count: int | None = Field(default=None, ge=1, le=100_000)
    timeout: Duration = 2.0

    @model_validator(mode="after")
    def _amount(self) -> TcpProbe:
        match = re.match(r"(?:\[[0-9A-Fa-f:]+\]|[^:\s\[\]]+):([0-9]{1,5})\Z", self.address)
        if not match or not 1 <= int(match[1]) <= 65535:
            raise ValueError(f"'{self.address}' is no address; write HOST:PORT")
        return _check_amount(self)


_T = TypeVar("_T", HttpProbe, TcpProbe)


def _check_amount(probe: _T) -> _T:
    """Either count, or rate with duration; neither is one attempt."""
    if (probe.rate is None) != (probe.duration is None):
        raise ValueError("'rate' and 'for' go together")
    if probe.rate is not None and probe.count is not None:
        raise ValueError("write either 'count', or 'rate' with 'for'")
    if probe.rate is not None and probe.duration is not None:
        if probe.rate * probe.duration > 100_000:
            raise ValueError("more than 100000 attempts in one phase")
        if probe.duration == 0:
            raise ValueError("'for' is 0s: nothing would be measured")
    if probe.timeout == 0:
        raise ValueError("'timeout' is 0s: no attempt could succeed")
    return probe


class FileProbe(Value):
    """Looks at a path in the guest."""

    path: str
    match: Pattern | None = None


class Probe(Value):
    """One measurement of the steady state, and its bounds before, under and after the fault."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    command: CommandProbe | None = None
    http: HttpProbe | None = None
    tcp: TcpProbe | None = None
    file: FileProbe | None = None
    vantage: Literal["guest", "host"] = Field(default="guest", alias="from")
    node: str | None = None
    """It looks from inside of this node."""
    expect: dict[str, Any] = Field(default_factory=dict)
    under_fault: dict[str, Any] | None = None
    recovered: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        """`command`, `http`, `tcp` or `file`."""
        return next(kind for kind in METRICS if getattr(self, kind) is not None)

    @property
    def measurement(self) -> CommandProbe | HttpProbe | TcpProbe | FileProbe:
        """The one of the four that is set."""
        found: CommandProbe | HttpProbe | TcpProbe | FileProbe = getattr(self, self.kind)
        return found

    def bounds(self, phase: Literal["before", "under", "recovery"]) -> tuple[Tolerance, ...]:
        """`under_fault` and `recovered` replace `expect` metric by metric; what they do not name stays."""
        extra = {"before": None, "under": self.under_fault, "recovery": self.recovered}[phase]
        return tolerances(self.kind, {**self.expect, **(extra or {})})

    @model_validator(mode="after")
    def _whole(self) -> Probe:
        kinds = [kind for kind in METRICS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            have = f"has {' and '.join(kinds)}" if kinds else "has none"
            raise ValueError(f"probe '{self.name}' needs exactly one of {', '.join(METRICS)}; it {have}")
        if not self.expect:
            raise PydanticCustomError(
                "no_tolerance",
                "probe '{name}' has no tolerance: nothing it measures could fail; add 'expect', for example {example}",
                {
                    "name": self.name,
                    "example": {
                        "http": "expect: {success_rate: '>= 99%', p95: '<= 500ms'}",
                        "tcp": "expect: {success_rate: 100%}",
                        "command": "expect: {exit_code: 0}",
                        "file": "expect: {exists: true}",
                    }[self.kind],
                },
            )
        if self.vantage == "host" and self.kind in ("command", "file"):
            raise ValueError(
                f"probe '{self.name}': a {self.kind} probe looks from the guest; http and tcp can look from the host"
            )
        if self.vantage == "host" and self.node is not None:
            what = "a probe from the host reaches the machine's own ports, not a node's; leave out one of the two"
            raise wrong_at(what, "node")
        for name in ("expect", "under_fault", "recovered"):
            for metric, bounds in (getattr(self, name) or {}).items():
                try:
                    tolerances(self.kind, {metric: bounds})
                except ValueError as error:
                    raise wrong_at(str(error).removeprefix(f"{metric}: "), name, metric) from error
                self._pattern_for(metric, name)
        return self

    def _pattern_for(self, metric: str, field: str) -> None:
        needed = {"number": "number", "matches": "match"}.get(metric)
        if needed and getattr(self.measurement, needed, None) is None:
            raise wrong_at(f"it needs a '{needed}' pattern in the {self.kind} of the probe", field, metric)
