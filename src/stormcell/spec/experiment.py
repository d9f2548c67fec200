"""The experiment as a person writes it: template + setup + steady state + fault + prediction + limits."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from stormcell.spec.fault import Fault
from stormcell.spec.probe import Probe, Run
from stormcell.spec.units import Duration
from stormcell.spec.value import Value
from stormcell.spec.verdict import Prediction, Verdict

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class Setup(Value):
    """A command that must exit with 0 before anything is measured; otherwise the run is void."""

    run: Run
    user: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    timeout: Duration = 60.0


class Load(Value):
    """A command that runs in the background from before the first probe until after the undo.

    It is stopped with SIGTERM (SIGKILL after 5 s); its output is kept in the run's events.
    """

    name: str = Field(pattern=NAME)
    run: Run
    user: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    until: Literal["undo", "end"] = "undo"


class Recovery(Value):
    """After the undo (after a crash: once the machine answers again) every probe must hold within this time."""

    within: Duration = 30.0
    every: Duration = 0.5


class Experiment(Value):
    """One question to one machine.

    `fault` stays a mapping here; the catalogue reads it, so that this module needs to know no fault.
    """

    stormcell: Literal[1] = 1
    name: str = Field(pattern=NAME)
    question: str = ""
    template: str = "base"
    open_ports: dict[str, int] = Field(default_factory=dict)
    setup: tuple[Setup, ...] = ()
    load: tuple[Load, ...] = ()
    steady_state: tuple[Probe, ...] = Field(min_length=1)
    fault: dict[str, Any]
    settle: Duration = 0.0
    """Waited between the act and the first probe under the fault."""
    hold: Duration = 0.0
    """The fault stays at least this long in force."""
    recovery: Recovery = Recovery()
    predict: str | dict[str, str] | None = None
    """`survives`, `fails`, or `{fails: PROBE}`; written before the run, never after."""
    deadline: Duration = 600.0
    """The run is `unknown` when it has not ended by then."""
    raw_state: bool = False
    """Use the restored guest as it is: old clock, same entropy and identity as every other."""
    cold_boot_within: Duration = 120.0

    @field_validator("fault", mode="before")
    @classmethod
    def _from_python(cls, value: Any) -> Any:
        return {"kind": value.kind, **value.params()} if isinstance(value, Fault) else value

    @property
    def prediction(self) -> Prediction | None:
        """What `predict` says."""
        if self.predict is None:
            return None
        if self.predict == "survives":
            return Prediction(verdict=Verdict.SURVIVED)
        probe = self.predict["fails"] if isinstance(self.predict, dict) else None
        return Prediction(verdict=Verdict.FAILED, probe=probe)

    @model_validator(mode="after")
    def _names(self) -> Experiment:
        for what, names in (
            ("probe", [p.name for p in self.steady_state]),
            ("load", [item.name for item in self.load]),
        ):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise ValueError(f"two entries for {what} '{twice[0]}': results could not be told apart")
        if "kind" not in self.fault:
            raise ValueError("'fault' needs a 'kind', for example {kind: net.delay, device: lo, delay: 300ms}")
        probes = [p.name for p in self.steady_state]
        if isinstance(self.predict, dict):
            known = set(self.predict) == {"fails"} and self.predict["fails"] in probes
        else:
            known = self.predict in (None, "survives", "fails")
        if not known:
            raise ValueError(f"'predict' is survives, fails, or {{fails: PROBE}} with a probe of {', '.join(probes)}")
        for name, port in self.open_ports.items():
            if not 1 <= port <= 65535:
                raise ValueError(f"open_ports.{name}: {port} is no port")
        return self

    @model_validator(mode="after")
    def _host_addresses(self) -> Experiment:
        for probe in self.steady_state:
            if probe.vantage == "host" and (host := host_port_name(probe)) not in self.open_ports:
                known = ", ".join(self.open_ports) or "none"
                raise ValueError(
                    f"probe '{probe.name}' looks from the host at '{host}', which is not in open_ports ({known}); "
                    "write for example open_ports: {web: 8080} and url: http://web/"
                )
        return self


def host_port_name(probe: Probe) -> str:
    """The name in `open_ports` that a probe from the host asks for: the host part of its address."""
    if probe.http is not None:
        return probe.http.url.removeprefix("http://").split("/")[0]
    return probe.tcp.address.rpartition(":")[0] if probe.tcp is not None else ""
