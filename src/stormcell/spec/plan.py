"""The compiled experiment: steps as data, in order, each for the guest or for the host.

The runner in the guest reads this as JSON (guest/runner.py), so every field is plain and every step says all it needs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stormcell.spec.fault import Command, Needs
from stormcell.spec.probe import Tolerance
from stormcell.spec.value import Value
from stormcell.spec.verdict import Prediction

Phase = Literal["setup", "before", "fault", "under", "undo", "recovery", "end"]


class _Step(Value):
    id: str
    phase: Phase
    on: Literal["guest", "host"] = "guest"


class RunStep(_Step):
    """Run once; any other exit than an accepted one ends the run (`setup_failed`)."""

    do: Literal["run"] = "run"
    command: Command


class LoadStep(_Step):
    """Start in the background."""

    do: Literal["load"] = "load"
    load: str
    command: Command


class UnloadStep(_Step):
    """Stop what `load` started: SIGTERM, then SIGKILL after `grace_s`."""

    do: Literal["unload"] = "unload"
    load: str
    grace_s: float = 5.0


class NeedsStep(_Step):
    """Check what the fault needs; something missing ends the run (`unsupported`)."""

    do: Literal["needs"] = "needs"
    fault: str


class ProbeStep(_Step):
    """Measure. With `gate`, a bound that does not hold ends the run (`broken_before`)."""

    do: Literal["probe"] = "probe"
    probe: str
    bounds: tuple[Tolerance, ...]
    gate: bool = False


class ApplyStep(_Step):
    """Reading `before`, the receipt, the act, reading `during`."""

    do: Literal["apply"] = "apply"
    fault: str


class InventoryStep(_Step):
    """What the guest consists of: kept with the label `before`, compared with that under any other label.

    `between`: after the undo of one fault while others are in force, so that differences are to be expected.
    """

    do: Literal["inventory"] = "inventory"
    label: Literal["before", "between", "undone"]


class WatchStep(_Step):
    """Watch the abort conditions from here until the first undo; one that is met ends the run (`aborted`)."""

    do: Literal["watch"] = "watch"


class WaitStep(_Step):
    """Sleep, with `since_act` until so much has passed since the first act, and with `schedules` until all are over."""

    do: Literal["wait"] = "wait"
    seconds: float = 0.0
    since_act: bool = False
    schedules: bool = False


class UndoStep(_Step):
    """Reading `after`, the undo, reading `undone`."""

    do: Literal["undo"] = "undo"
    fault: str


class RecoverStep(_Step):
    """Measure again and again until the bounds hold, at most `within_s` after the undo."""

    do: Literal["recover"] = "recover"
    probe: str
    bounds: tuple[Tolerance, ...]
    within_s: float
    every_s: float


class MachineStep(_Step):
    """An act on the machine, by the host: readings, the act, its evidence; then a cold boot if asked for."""

    do: Literal["machine"] = "machine"
    on: Literal["guest", "host"] = "host"
    fault: str
    action: Literal["crash"] = "crash"
    mode: Literal["panic", "reboot", "power"]
    boot: bool = True
    boot_within_s: float = 120.0


class MomentStep(_Step):
    """Look again and again for the moment of the fork; one that has not come in time ends the run (`no_moment`).

    It is one of: a command that exits with 0, a probe (`spec` and `bounds`) that holds or does not, a line in a file,
    or `after_s`.
    """

    do: Literal["moment"] = "moment"
    text: str
    command: Command | None = None
    probe: str | None = None
    spec: dict[str, Any] = Field(default_factory=dict)
    bounds: tuple[Tolerance, ...] = ()
    holds: bool = True
    file: str | None = None
    match: str | None = None
    after_s: float | None = None
    within_s: float
    every_s: float


class ForkStep(_Step):
    """Wait here. The machine is stopped and forked; in each fork the runner is handed another plan, and goes on."""

    do: Literal["fork"] = "fork"


class NoiseStep(_Step):
    """Disturb the scheduler from here to `quiet`: at moments `gap_s` apart on average, those from the one with the
    number `first` to before `last`."""

    do: Literal["noise"] = "noise"
    seed: int
    gap_s: float
    first: int = 0
    last: int | None = None


class QuietStep(_Step):
    """End the noise; its event says what it did."""

    do: Literal["quiet"] = "quiet"


class MarkStep(_Step):
    """Of the control: where the others act, or undo. What is timed from there is timed here, too."""

    do: Literal["mark"] = "mark"
    mark: Literal["act", "undo"]


Step = Annotated[
    RunStep
    | LoadStep
    | UnloadStep
    | NeedsStep
    | ProbeStep
    | ApplyStep
    | InventoryStep
    | WatchStep
    | WaitStep
    | UndoStep
    | RecoverStep
    | MachineStep
    | MomentStep
    | ForkStep
    | MarkStep
    | NoiseStep
    | QuietStep,
    Field(discriminator="do"),
]


class PlannedProbe(Value):
    """How to measure: `spec` holds the probe's own fields, with durations in seconds."""

    kind: Literal["command", "http", "tcp", "file"]
    vantage: Literal["guest", "host"]
    spec: dict[str, Any]

    @property
    def seen_from(self) -> str:
        """Where it stands, for people: `guest`, `host` or `node NAME`."""
        return f"node {self.spec['node']}" if self.spec.get("node") else self.vantage


class Moment(Value):
    """One turn of a schedule, `at_s` after the fault's apply step at the earliest: `level` is what is applied or
    changed to.

    Acts take time. So a turn that is counted from the `previous` one comes as long after that one was done (the fault
    was in force, or undone) as their `at_s` are apart; one that is counted from the `start` comes at `at_s`, or as soon
    as the turn before it is over.
    """

    at_s: float
    do: Literal["apply", "change", "undo"]
    level: int = 0
    counted: Literal["start", "previous"] = "previous"


class Level(Value):
    """What a fault becomes in a ramp. `change` leads here from the level before, in place."""

    params: dict[str, Any]
    apply: tuple[Command, ...] = ()
    undo: tuple[Command, ...] = ()
    read: tuple[Command, ...] = ()
    change: tuple[Command, ...] = ()


class PlannedAbort(Value):
    """Ends the run early: a probe of the plan, measured with `spec`, or a number in a file of the guest.

    `bounds` are what must *not* become true. `file` may be a `key value` table, as cgroup v2 has them: then `key`.
    """

    name: str
    on: Literal["guest", "host"] = "guest"
    every_s: float
    bounds: tuple[Tolerance, ...]
    probe: str | None = None
    spec: dict[str, Any] = Field(default_factory=dict)
    file: str | None = None
    key: str | None = None


class PlannedFault(Value):
    """A fault as commands. A crash of the machine has none."""

    kind: str
    params: dict[str, Any]
    counts: str
    needs: Needs = Needs()
    apply: tuple[Command, ...] = ()
    undo: tuple[Command, ...] = ()
    read: tuple[Command, ...] = ()
    warm: tuple[Command, ...] = ()
    cannot_know: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    """Of a ramp: all of them, the first being the fault itself."""
    moments: tuple[Moment, ...] = ()
    """Empty: from its apply step to its undo step. Otherwise carried out on their own, beside the steps."""
    over_s: float = 0.0
    """When the schedule is over, at the earliest: a ramp keeps its last value for a while."""


class Plan(Value):
    """What will be done. `deadline_s` bounds the whole; `seed` drives what the runner draws at random.

    `ttl_s`: so long after the first act a watchdog in the guest undoes everything, whatever happened to the runner.
    `role`: a whole run, the drive to a moment, or from there a branch or the control.
    """

    version: Literal[1] = 1
    role: Literal["whole", "drive", "branch", "control"] = "whole"
    branches: tuple[str, ...] = ()
    """Of a drive: who goes on from its end."""
    experiment: str
    question: str = ""
    template: str
    template_digest: str = ""
    seed: int = 0
    deadline_s: float
    ttl_s: float | None = None
    prediction: Prediction | None = None
    open_ports: dict[str, int] = Field(default_factory=dict)
    raw_state: bool = False
    sealed: bool = False
    """Times are the guest's, which count instructions."""
    probes: dict[str, PlannedProbe]
    faults: dict[str, PlannedFault]
    aborts: tuple[PlannedAbort, ...] = ()
    steps: tuple[Step, ...]
