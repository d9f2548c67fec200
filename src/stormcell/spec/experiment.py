"""The experiment as a person writes it: template + setup + steady state + fault + prediction + limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from stormcell.spec.branching import Branch, ForkMoment, OneFault, SeveralFaults, check_names, prediction
from stormcell.spec.complaints import shown
from stormcell.spec.exploration import Exploration
from stormcell.spec.nodes import Nodes, unknown
from stormcell.spec.probe import Probe, Run, Tolerance, tolerances
from stormcell.spec.units import Duration
from stormcell.spec.value import Value, nearest, wrong_at
from stormcell.spec.verdict import Prediction

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class Setup(Value):
    """A command that must exit with 0 before anything is measured; otherwise the run is void."""

    run: Run
    node: str | None = None
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
    node: str | None = None
    user: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    until: Literal["undo", "end"] = "undo"


class Recovery(Value):
    """After the undo (after a crash: once the machine answers again) every probe must hold within this time."""

    within: Duration = 30.0
    every: Duration = 0.5


class Abort(Value):
    """A condition that ends the fault and the run early: what a probe measures, or a number in a file of the guest."""

    probe: str | None = None
    """A probe of the steady state; measured again and again, with few attempts each time."""
    file: str | None = Field(default=None, pattern=r"^/")
    """A file with one number, or with `key value` lines (cgroup v2); then `key` says which."""
    key: str | None = None
    when: dict[str, Any] | str | float
    """For a probe a bound on its metrics (`{success_rate: "< 50%"}`), for a file a bound on the number (`"> 3"`)."""
    every: Duration = 1.0

    @model_validator(mode="after")
    def _one_source(self) -> Abort:
        if (self.probe is None) == (self.file is None):
            raise ValueError("one of 'probe' and 'file' is needed, and only one")
        if isinstance(self.when, dict) != (self.probe is not None):
            raise ValueError("'when' is a mapping of metrics for a probe, and one bound like '> 3' for a file")
        if self.key is not None and self.file is None:
            raise ValueError("'key' is about a file")
        if self.every < 0.05:
            raise ValueError("'every' is at least 50ms")
        return self

    @property
    def name(self) -> str:
        """What it is called in events and reasons."""
        return self.probe or " ".join(filter(None, (self.file, self.key)))

    def bounds(self, kind: str) -> tuple[Tolerance, ...]:
        """What must not become true. `kind` is that of the probe. Raises ValueError."""
        return tolerances(kind, self.when if isinstance(self.when, dict) else {"number": self.when})


class Experiment(Value):
    """One question to one machine.

    A fault stays a mapping here; the catalogue reads it, so that this module needs to know no fault.
    """

    stormcell: Literal[1] = 1
    name: str = Field(pattern=NAME)
    question: str = ""
    template: str = "base"
    open_ports: dict[str, int] = Field(default_factory=dict)
    nodes: Nodes = Field(default_factory=dict)
    """Parts of the machine with a network, a host name and services of their own, by name. They are made, and their
    services started, before `setup`."""
    setup: tuple[Setup, ...] = ()
    load: tuple[Load, ...] = ()
    steady_state: tuple[Probe, ...] = Field(min_length=1)
    fault: OneFault = None
    """Its kind, its parameters, and perhaps a `schedule`."""
    faults: SeveralFaults = None
    """Several faults by name, applied in this order and undone in the reverse one."""
    branches: dict[str, Branch] | None = None
    """Instead of a fault: several fates by name. One machine is driven to `moment` and forked once for each, and once
    for the control, which gets no fault."""
    moment: ForkMoment | None = None
    """Where the branches part."""
    explore: Exploration | None = None
    """What `stormcell explore` may vary; a plain run takes no notice of it."""
    abort: tuple[Abort, ...] = ()
    """Conditions that end the run early."""
    settle: Duration = 0.0
    """Waited between the act and the first probe under the fault."""
    hold: Duration = 0.0
    """The fault stays at least this long in force."""
    recovery: Recovery = Recovery()
    predict: str | dict[str, str] | None = None
    """`survives`, `fails`, or `{fails: PROBE}`; written before the run, never after."""
    deadline: Duration = 600.0
    """The run is `unknown` when it has not ended by then."""
    ttl: Duration | None = None
    """So long after the first act a watchdog in the guest undoes every fault, whatever happened to the run."""
    raw_state: bool = False
    """Use the restored guest as it is: old clock, same entropy and identity as every other."""
    cold_boot_within: Duration = 120.0

    @property
    def disturbances(self) -> dict[str, dict[str, Any]]:
        """Every fault's mapping by its name, in order; a single one is called `fault`."""
        if self.faults is None and self.fault is None:
            return {}
        return self.faults if self.faults is not None else {"fault": self.fault or {}}

    @property
    def prediction(self) -> Prediction | None:
        """What `predict` says."""
        return prediction(self.predict)

    @model_validator(mode="after")
    def _names(self) -> Experiment:
        for what, names in (
            ("probe", [p.name for p in self.steady_state]),
            ("load", [item.name for item in self.load]),
        ):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                number = len(names) - 1 - names[::-1].index(twice[0])
                field = "steady_state" if what == "probe" else "load"
                raise wrong_at(f"two entries for {what} '{twice[0]}': results could not be told apart", field, number)
        for name, port in self.open_ports.items():
            if not 1 <= port <= 65535:
                raise wrong_at(f"{port} is no port; it is 1 to 65535", "open_ports", name)
        return self

    @model_validator(mode="after")
    def _places(self) -> Experiment:
        uses: dict[str, Sequence[Setup | Load | Probe]] = {
            "setup": self.setup,
            "load": self.load,
            "steady_state": self.steady_state,
        }
        for field, items in uses.items():
            for number, item in enumerate(items):
                if item.node is not None and item.node not in self.nodes:
                    raise wrong_at(unknown(item.node, self.nodes), field, number, "node")
        log = self.moment.log if self.moment is not None else None
        for moment, at in ((self.moment, ("moment",)), (log, ("moment", "log"))):
            if moment is not None and moment.node is not None and moment.node not in self.nodes:
                raise wrong_at(unknown(moment.node, self.nodes), *at, "node")
        return self

    @model_validator(mode="after")
    def _fates(self) -> Experiment:
        if self.branches is None:
            if self.moment is not None:
                raise wrong_at("it is where 'branches' part, and this experiment has none", "moment")
            if self.fault is not None or self.faults is not None or not (self.explore and self.explore.noise):
                self._check_fate(self.fault, self.faults, self.predict)
            return self
        if self.fault is not None or self.faults is not None:
            raise ValueError("one of 'fault', 'faults' and 'branches' is needed, and only one")
        check_names(self.branches)
        if self.moment is None:
            raise ValueError("'branches' need a 'moment' at which the machine is forked, for example {after: 5s}")
        if self.predict is not None:
            raise wrong_at("with 'branches' each branch has its own", "predict")
        for name, branch in self.branches.items():
            if not re.match(NAME, name):
                what = f"'{name}' is no name of a branch; letters, digits and _ . - are allowed"
                raise wrong_at(what, "branches", name)
            self._check_fate(branch.fault, branch.faults, branch.predict, "branches", name)
        probes = [p.name for p in self.steady_state]
        if self.moment.probe is not None and self.moment.probe not in probes:
            what = f"there is no probe '{self.moment.probe}'; {nearest(self.moment.probe, probes)}"
            raise wrong_at(what, "moment", "probe")
        return self

    def _check_fate(
        self,
        fault: dict[str, Any] | None,
        faults: dict[str, dict[str, Any]] | None,
        predict: str | dict[str, str] | None,
        *at: str,
    ) -> None:
        """Of the experiment, or of the branch that is found `at`."""
        example = "{kind: net.delay, device: lo, delay: 300ms}"
        if (fault is None) == (faults is None):
            what = f"one of 'fault' and 'faults' is needed, and only one; write for example fault: {example}"
            raise wrong_at(what, *at) if at else ValueError(what)
        if faults is not None and not faults:
            raise wrong_at("it is empty: nothing would be asked of the system", *at, "faults")
        for name, mapping in (faults if faults is not None else {"fault": fault or {}}).items():
            if not re.match(NAME, name):
                what = f"'{name}' is no name of a fault; letters, digits and _ . - are allowed"
                raise wrong_at(what, *at, "faults", name)
            if "kind" not in mapping:
                place = ("fault",) if faults is None else ("faults", name)
                raise wrong_at(f"the field 'kind' is missing; write for example {example}", *at, *place)
        probes = [p.name for p in self.steady_state]
        if isinstance(predict, dict):
            known = set(predict) == {"fails"} and predict["fails"] in probes
        else:
            known = predict in (None, "survives", "fails")
        if not known:
            what = f"it is survives, fails, or {{fails: PROBE}} with a probe of {', '.join(probes)}"
            if isinstance(predict, dict) and set(predict) == {"fails"}:
                unknown = predict["fails"]
                raise wrong_at(f"there is no probe '{unknown}'; {nearest(unknown, probes)}", *at, "predict", "fails")
            raise wrong_at(f"{shown(predict)} is no prediction; {what}", *at, "predict")

    def branch(self, name: str) -> Experiment:
        """One branch as an experiment of its own, which begins where the others do, too."""
        branch = (self.branches or {})[name]
        fate = {"fault": branch.fault, "faults": branch.faults, "predict": branch.predict}
        return self.model_copy(update={**fate, "branches": None})

    @model_validator(mode="after")
    def _aborts(self) -> Experiment:
        known = {probe.name: probe for probe in self.steady_state}
        for number, abort in enumerate(self.abort):
            if abort.probe is not None and abort.probe not in known:
                raise wrong_at(
                    f"there is no probe '{abort.probe}'; {nearest(abort.probe, known)}", "abort", number, "probe"
                )
            try:
                abort.bounds(known[abort.probe].kind if abort.probe is not None else "command")
            except ValueError as error:
                raise wrong_at(str(error).removeprefix("number: "), "abort", number, "when") from error
        return self

    @model_validator(mode="after")
    def _host_addresses(self) -> Experiment:
        for number, probe in enumerate(self.steady_state):
            if probe.vantage == "host" and (host := host_port_name(probe)) not in self.open_ports:
                known = ", ".join(self.open_ports) or "none"
                raise wrong_at(
                    f"probe '{probe.name}' looks from the host at '{host}', which is not in open_ports ({known}); "
                    "write for example open_ports: {web: 8080} and url: http://web/",
                    "steady_state",
                    number,
                    probe.kind,
                )
        return self


def host_port_name(probe: Probe) -> str:
    """The name in `open_ports` that a probe from the host asks for: the host part of its address."""
    if probe.http is not None:
        return probe.http.url.removeprefix("http://").split("/")[0]
    return probe.tcp.address.rpartition(":")[0] if probe.tcp is not None else ""
