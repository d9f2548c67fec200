"""Several fates of one machine: the moment up to which it is driven, and the faults that its forks meet."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from stormcell.spec.fault import Fault
from stormcell.spec.probe import Pattern, Run
from stormcell.spec.units import Duration
from stormcell.spec.value import Value
from stormcell.spec.verdict import CONTROL, Prediction, Verdict


class LogLine(Value):
    """A line that is written since the run began, in a file of the guest or in a service's log."""

    file: str | None = Field(default=None, pattern=r"^/")
    service: str | None = None
    node: str | None = None
    """Whose service; without one, it is the template's."""
    match: Pattern
    """Searched in each line."""

    @model_validator(mode="after")
    def _one_source(self) -> LogLine:
        if (self.file is None) == (self.service is None):
            raise ValueError("one of 'file' and 'service' is needed, and only one")
        if self.node is not None and self.service is None:
            raise ValueError("'node' is about a service")
        return self


class ForkMoment(Value):
    """When the machine is forked: looked for once setup is done and the loads run, again and again."""

    command: Run | None = None
    """Until it exits with 0."""
    user: str | None = None
    """Who runs `command`."""
    node: str | None = None
    """In which node."""
    probe: str | None = None
    """A probe of the steady state; measured with few attempts each time."""
    holds: bool = True
    """Of a probe: wait until it holds its `expect`, or until it does not."""
    log: LogLine | None = None
    after: Duration | None = None
    """So long under load."""
    within: Duration = 60.0
    """A moment that has not come by then makes the experiment void."""
    every: Duration = 0.2
    settle: Duration = 0.0
    """Waited in every branch between the fork and the first probe. A fork is cold: an emulated processor translates all
    code anew, and what is done for the first time takes longer."""

    @model_validator(mode="after")
    def _one_form(self) -> ForkMoment:
        forms = [name for name in ("command", "probe", "log", "after") if getattr(self, name) is not None]
        if len(forms) != 1:
            have = f"{' and '.join(forms)} are given" if forms else "none is given"
            raise ValueError(f"a moment is one of command, probe, log and after; {have}")
        if self.user is not None and self.command is None:
            raise ValueError("'user' is about a command")
        if self.node is not None and self.command is None:
            raise ValueError("'node' is about a command; a probe and a service have their own")
        if "holds" in self.model_fields_set and self.probe is None:
            raise ValueError("'holds' is about a probe")
        if self.every < 0.05:
            raise ValueError("'every' is at least 50ms")
        return self

    @property
    def text(self) -> str:
        """As a person would say it."""
        if self.command is not None:
            words = self.command if isinstance(self.command, str) else " ".join(self.command)
            place = f" in node {self.node}" if self.node is not None else ""
            return f"`{' '.join(words.split())}` exits with 0{place}"
        if self.probe is not None:
            return f"probe '{self.probe}' {'holds' if self.holds else 'does not hold'}"
        if self.log is not None:
            of_node = f" of node {self.log.node}" if self.log.node is not None else ""
            place = self.log.file or f"the log of service '{self.log.service}'{of_node}"
            return f"a line in {place} matches '{self.log.match}'"
        return f"{self.after:g} s under load have passed"


def as_mapping(value: Any) -> Any:
    """A fault that was made in Python as it would be written."""
    return {"kind": value.kind, **value.params()} if isinstance(value, Fault) else value


def _each_as_mapping(value: Any) -> Any:
    return {name: as_mapping(item) for name, item in value.items()} if isinstance(value, dict) else value


OneFault = Annotated[dict[str, Any] | None, BeforeValidator(as_mapping)]
"""A fault's mapping; made from a Fault of Python too."""
SeveralFaults = Annotated[dict[str, dict[str, Any]] | None, BeforeValidator(_each_as_mapping)]
"""The same, by name."""


class Branch(Value):
    """One fork's faults, and what is expected of it. A fault's mapping alone is short for `{fault: ...}`."""

    fault: OneFault = None
    faults: SeveralFaults = None
    predict: str | dict[str, str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        data = as_mapping(data)
        return {"fault": data} if isinstance(data, dict) and "kind" in data else data


def prediction(predict: str | dict[str, str] | None) -> Prediction | None:
    """What `predict` says; it was checked."""
    if predict is None:
        return None
    if predict == "survives":
        return Prediction(verdict=Verdict.SURVIVED)
    return Prediction(verdict=Verdict.FAILED, probe=predict["fails"] if isinstance(predict, dict) else None)


def check_names(branches: dict[str, Branch]) -> None:
    """Raises ValueError for a name that is ours, and for no branch at all."""
    if not branches:
        raise ValueError("'branches' is empty: there would be nothing to compare the control with")
    if CONTROL in branches:
        raise ValueError(f"'{CONTROL}' is the branch that gets no fault; it is always there, and its name is taken")
