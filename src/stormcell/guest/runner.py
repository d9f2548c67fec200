"""The plan runner: carries out the guest's steps of a plan on the monotonic clock, one JSON event a line.

Reads one line {"plan", "start", "undo_receipts"?} on stdin, then {"go": STEP} for each step of the host's that it
awaits; {"stop": CODE, "text": ...} at any time ends the run early. The end of stdin means that the host is gone.
A step `fork` hands the run over: see rendezvous.py; {"hand_over": true, "keep": ...} does so in the middle of any step,
when what was begun is undone, or with `keep` stays.
Whatever ends the run after an act began, everything begun is undone and every load stopped before `end` is written;
if this process dies first, a watchdog undoes it (watchdog.py). Faults with a schedule and abort conditions are children
of this process, which write events for it to pass on (offspring.py).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stormcell.guest import aborts, inventory, measure, moment, probes, readings, recovery, timeline
from stormcell.guest.acts import Act, called, failure
from stormcell.guest.events import Events
from stormcell.guest.lifeline import HandOver, Lifeline, Stop
from stormcell.guest.loads import Loads
from stormcell.guest.needs import missing
from stormcell.guest.offspring import Offspring
from stormcell.guest.rendezvous import Rendezvous
from stormcell.guest.running import Runnery
from stormcell.guest.tools.schedule import noise
from stormcell.guest.watchdog import Watchdog

_FIRST_LINE_S = 30.0
_LOAD_GRACE_S = 5.0
_WATCHDOG_SPARE_S = 30.0
"""The runner's own deadline comes first: the watchdog is for one that cannot act any more."""
HAND_OVER = "hand_over"
"""Stands for a step when a plan is left in its middle."""
Step = Mapping[str, Any]


class Runner:
    """One run of one plan, from the step with index `start`."""

    def __init__(self, plan: Mapping[str, Any], start: int, lifeline: Lifeline, events: Events) -> None:
        self._plan = plan
        self._todo = deque(plan["steps"][start:])
        self._lifeline = lifeline
        self._events = events
        self._runnery = Runnery(lifeline)
        self._loads = Loads(lifeline, self._runnery.forest, events)
        self._joined: socket.socket | None = None
        """What the `join` of a fork's host waits on; it ends with this process."""
        self._acts: dict[str, Act] = {}
        self._timelines: dict[str, Offspring] = {}
        self._over: set[str] = set()
        self._watch: Offspring | None = None
        self._noise: Offspring | None = None
        self._watchdog: Watchdog | None = None
        self._measured: dict[str, dict[str, float | None]] = {}
        self._inventory: inventory.Inventory = {}
        self._acted_at: float | None = None
        self._undone_at = 0.0
        self._lines = {step["id"]: moment.Lines(step["file"]) for step in plan["steps"] if step.get("file")}
        self._steps: dict[str, Callable[[Step], None]] = {
            "run": self._run,
            "load": lambda step: self._loads.start(step["load"], step["command"]),
            "unload": lambda step: self._loads.stop(step["load"], step["grace_s"]),
            "needs": self._needs,
            "probe": self._probe,
            "apply": lambda step: self._apply(step["fault"]),
            "wait": self._wait,
            "undo": lambda step: self._undo(step["fault"]),
            "inventory": lambda step: self._take_inventory(step["label"]),
            "watch": lambda _: self._watch_aborts(),
            "recover": self._recover,
            "moment": self._moment,
            "fork": lambda _: self._fork(),
            "mark": lambda step: self._mark(step["mark"]),
            "noise": self._disturb,
            "quiet": lambda _: self._end_noise(),
        }

    def adopt(self, undo_receipts: Mapping[str, Mapping[str, Any]]) -> None:
        """Faults that an earlier runner began and that this one has to undo."""
        for fault, receipt in undo_receipts.items():
            self._act(fault).adopt(list(receipt["undo"]))

    def perform(self) -> bool:
        """All steps. False when the run ended early; what was begun is undone in either case."""
        try:
            while self._todo:
                try:
                    self._take_step(self._todo.popleft())
                except HandOver as asked:
                    self._hand_over(asked.keep)
            return True
        except Stop as stop:
            self._events.emit("stop", code=stop.code, text=stop.text)
        except Exception as error:
            self._events.emit("stop", code="runner_error", text=f"{type(error).__name__}: {error}")
        finally:
            self._clean_up()
        return False

    def _take_step(self, step: Step) -> None:
        self._events.step, self._events.phase = step["id"], step["phase"]
        self._events.emit("step")
        self._lifeline.sleep(0)
        self._perform(step)
        self._loads.look()

    def _perform(self, step: Step) -> None:
        if step["on"] == "host":
            self._await(step["id"])
            if step["do"] in ("apply", "undo"):
                self._undone_at = self._lifeline.now()
                self._acted_at = self._undone_at if self._acted_at is None else self._acted_at
        elif step["do"] in self._steps:
            self._steps[step["do"]](step)
        else:
            raise Stop("runner_error", f"this runner knows no step '{step['do']}'")

    def _clean_up(self) -> None:
        self._lifeline.closing = True
        jobs: list[Callable[[], object]] = [self._end_watch, self._end_noise]
        jobs += [partial(self._undo, fault) for fault in self._begun()]
        jobs += [partial(self._loads.stop_all, _LOAD_GRACE_S), self._disarm]
        for job in jobs:
            try:
                job()
            except Exception as error:
                self._events.emit("stop", code="runner_error", text=f"while undoing: {type(error).__name__}: {error}")

    def _begun(self) -> list[str]:
        """Of the faults that are to be undone, the latest first."""
        return [name for name in reversed(self._acts) if self._acts[name].begun or name in self._timelines]

    def _await(self, step: str) -> None:
        self._events.emit("await")
        said = self._lifeline.line(None)
        if said.get("go") != step:
            raise Stop("runner_error", f"the host said {said!r} while the step '{step}' was awaited")

    def _moment(self, step: Step) -> None:
        kind = self._plan["probes"][step["probe"]]["kind"] if step["probe"] is not None else ""
        look = moment.look_for(step, self._lines.get(step["id"]), self._runnery.run, self._take, kind)
        self._events.emit("moment", **moment.wait_for(step, look, self._lifeline, self._loads.look))

    def _fork(self) -> None:
        """Wait for the host of a fork of this machine, and go on with its plan."""
        with Rendezvous(self._lifeline) as place:
            self._events.emit("await")
            control, events, self._joined = place.meet()
        self._lifeline.begin_again(control)
        self._events.begin_again(events)
        self._events.step = ""
        request = self._lifeline.line(_FIRST_LINE_S)
        self._plan = request["plan"]
        self._todo = deque(self._plan["steps"])
        self._lifeline.deadline(self._plan["deadline_s"])
        self._events.emit("begin", **_identity())
        self._loads.go_on()

    def _hand_over(self, keep: bool) -> None:
        """Leave this plan in the middle, its loads going on, and wait for another one as at a fork."""
        self._lifeline.closing = True
        self._events.step, self._events.phase = HAND_OVER, "before"
        self._end_watch()
        self._end_noise()
        for child in self._timelines.values() if keep else ():
            child.ignore()
        for fault in () if keep else self._begun():
            self._undo(fault)
        self._disarm()
        self._acts, self._timelines, self._over, self._measured = {}, {}, set(), {}
        self._acted_at, self._undone_at = None, 0.0
        self._fork()
        self._lifeline.closing = False

    def _mark(self, what: str) -> None:
        if what == "undo":
            self._end_watch()
            self._undone_at = self._lifeline.now()
        elif self._acted_at is None:
            self._acted_at = self._lifeline.now()

    def _run(self, step: Step) -> None:
        done = self._runnery.run({**step["command"], "part": "setup" if step["command"].get("node") else ""})
        self._events.emit("output", **done.output())
        if not readings.accepted(step["command"], done.output()):
            raise Stop("setup_failed", f"the step '{step['id']}' {failure(done)}")

    def _needs(self, step: Step) -> None:
        fault = self._plan["faults"][step["fault"]]
        lacking = missing(fault["needs"], self._runnery.run)
        self._events.emit("needs", fault=step["fault"], missing=lacking)
        if lacking:
            raise Stop(
                "unsupported", f"{called(step['fault'], fault)} cannot be done in this guest: {'; '.join(lacking)}"
            )
        for command in fault["warm"]:
            self._events.emit("output", **self._runnery.run(command).output())

    def _take(self, name: str, spec: Mapping[str, Any], promising: recovery.Promising | None = None) -> probes.Taken:
        seed = f"{self._plan['seed']}/{self._events.step}"
        kind = self._plan["probes"][name]["kind"]
        return probes.take(kind, spec, seed=seed, wait=self._lifeline.wait, run=self._runnery.run, promising=promising)

    def _probe(self, step: Step) -> None:
        name, planned = step["probe"], self._plan["probes"][step["probe"]]
        began = self._lifeline.now()
        taken = self._take(name, planned["spec"])
        fields = measure.report(
            planned["kind"], planned["spec"], step["phase"], step["bounds"], taken.samples, taken.detail
        )
        self._events.emit("probe", probe=name, vantage="guest", began=round(began, 9), **fields)
        self._measured[name] = fields["metrics"]
        if step["gate"] and not fields["measured"]:
            raise Stop("measured_nothing", f"probe '{name}' measured nothing before the fault")
        if step["gate"] and not fields["holds"]:
            broken = ", ".join(
                f"{c['metric']} {c['wanted']} (measured {c['measured']})" for c in fields["checks"] if not c["holds"]
            )
            raise Stop("broken_before", f"probe '{name}' did not hold before the fault: {broken}")

    def _recover(self, step: Step) -> None:
        name, planned = step["probe"], self._plan["probes"][step["probe"]]
        fields = recovery.until_holds(
            planned["kind"],
            planned["spec"],
            step["bounds"],
            within=step["within_s"],
            every=step["every_s"],
            elapsed=lambda: self._lifeline.now() - self._undone_at,
            take=lambda spec, promising: self._take(name, spec, promising),
            sleep=self._lifeline.sleep,
        )
        self._events.emit("recovered", probe=name, vantage="guest", **fields)

    def _wait(self, step: Step) -> None:
        if step.get("schedules"):
            self._lifeline.until(lambda: all(c.ended for n, c in self._timelines.items() if n not in self._over), None)
        since = self._lifeline.now() - (self._acted_at or 0.0) if step["since_act"] else 0.0
        self._lifeline.sleep(max(0.0, step["seconds"] - since))

    def _act(self, name: str) -> Act:
        if name not in self._acts:
            planned, emit = self._plan["faults"][name], self._events.emit
            self._acts[name] = Act(name, planned, self._runnery.run_all, emit, self._lifeline.now)
        return self._acts[name]

    def _apply(self, name: str) -> None:
        self._arm()
        act = self._act(name)
        planned = self._plan["faults"][name]
        if planned.get("moments"):
            began = self._lifeline.now()
            work = timeline.work(name, planned, began)
            self._timelines[name] = Offspring(self._lifeline, work, partial(self._heard, f"the schedule of '{name}'"))
        else:
            act.begin()
        if self._acted_at is None:
            self._acted_at = self._lifeline.now()

    def _undo(self, name: str) -> None:
        self._end_watch()
        act, child = self._act(name), self._timelines.pop(name, None)
        if child is None and not act.begun:
            raise Stop("runner_error", f"'{name}' was not begun by this runner, and no receipt of it was given")
        closing, self._lifeline.closing = self._lifeline.closing, True
        try:
            if child is not None:
                child.stop()
                self._end_for(name)
            else:
                act.end()
        finally:
            self._undone_at = self._lifeline.now()
            self._lifeline.closing = closing

    def _end_for(self, name: str) -> None:
        """What a schedule's process did not take back itself, because it was killed."""
        try:
            receipt = readings.load_receipt(name)
        except FileNotFoundError:
            return
        act = self._act(name)
        act.adopt(receipt["undo"])
        act.end()

    def _heard(self, who: str, said: Mapping[str, Any]) -> None:
        """An event of a child."""
        event, fields = said["event"], {key: value for key, value in said.items() if key != "event"}
        if event == "stop":
            self._lifeline.stop(
                said["code"], f"{who}: {said['text']}" if said["code"] == "runner_error" else said["text"]
            )
            return
        self._events.emit(event, **fields)
        if event == "over":
            self._over.add(said["fault"])
        if event == "abort":
            self._lifeline.stop("aborted", said["text"])

    def _watch_aborts(self) -> None:
        kinds = {name: probe["kind"] for name, probe in self._plan["probes"].items()}
        mine = [abort for abort in self._plan["aborts"] if abort["on"] == "guest"]
        for abort in mine:
            if found := aborts.look_before(abort, self._measured):
                raise Stop(*found)
        if not mine:
            return
        work = aborts.work(mine, kinds, self._plan["seed"])
        self._watch = Offspring(self._lifeline, work, partial(self._heard, "the abort conditions"))

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.kill()

    def _disturb(self, step: Step) -> None:
        work = noise.work(step["seed"], step["gap_s"], step["first"], step["last"])
        self._noise = Offspring(self._lifeline, work, partial(self._heard, "the schedule noise"))

    def _end_noise(self) -> None:
        under_way, self._noise = self._noise, None
        if under_way is not None:
            under_way.stop()

    def _take_inventory(self, label: str) -> None:
        found = inventory.take(self._runnery.run)
        if label == "before":
            self._inventory = found
            self._events.emit("inventory", label=label, sizes={name: len(items) for name, items in found.items()})
        else:
            self._events.emit("inventory", label=label, differences=inventory.differences(self._inventory, found))

    def _arm(self) -> None:
        """The watchdog, before the first act."""
        if self._watchdog is None:
            ttl = self._plan.get("ttl_s") or self._plan["deadline_s"] + _WATCHDOG_SPARE_S
            dog = self._watchdog = Watchdog(ttl)
            os.set_blocking(dog.notice, False)
            self._lifeline.loop.watch(dog.notice, lambda _: self._noticed(dog.notice))
            self._events.emit("watchdog", pid=dog.pid, ttl_s=ttl)

    def _noticed(self, notice: int) -> None:
        try:
            said = os.read(notice, 1 << 20)
        except BlockingIOError:
            return
        if said:
            ttl = self._plan["ttl_s"]
            self._events.emit("recovered_by", who="watchdog", why="ttl", text=said.decode(errors="replace"))
            self._lifeline.stop("ttl", f"the ttl of {ttl:g} s passed; the watchdog has undone the faults")

    def _disarm(self) -> None:
        dog, self._watchdog = self._watchdog, None
        if dog is not None:
            self._lifeline.loop.unwatch(dog.notice)
            dog.disarm()


def _identity() -> dict[str, Any]:
    found: dict[str, Any] = {"wall": time.time(), "pid": os.getpid()}
    for key, path in (
        ("boot_id", "/proc/sys/kernel/random/boot_id"),
        ("generation", "/run/stormcell/generation"),
    ):
        try:
            with open(path, encoding="ascii") as file:
                found[key] = file.read().strip()
        except OSError:
            found[key] = None
    return found


def _private_descriptors() -> tuple[int, int]:
    """Ours for the host's lines and for the events; commands and stray prints get neither."""
    control, events = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return control, events


def _outlive_the_oom_killer() -> None:
    """The undo must not be the victim of the fault; commands get an ordinary score. Needs CAP_SYS_RESOURCE."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("-1000")
    except OSError:
        pass


def main(argv: Sequence[str]) -> int:
    """`run-plan`. Exit code 0 when every step was carried out, 1 when the run ended early; the events say why."""
    control, out = _private_descriptors()
    _outlive_the_oom_killer()
    lifeline = Lifeline(control)
    lifeline.heed_signals()
    events = Events(out, lifeline.now, lambda why: lifeline.stop("interrupted", why))
    complete = False
    try:
        request = lifeline.line(_FIRST_LINE_S)
        plan = request["plan"]
        runner = Runner(plan, request.get("start", 0), lifeline, events)
        runner.adopt(request.get("undo_receipts") or {})
        lifeline.deadline(plan["deadline_s"])
        events.emit("begin", **_identity())
        complete = runner.perform()
    except Stop as stop:
        events.emit("stop", code=stop.code, text=stop.text)
    except TimeoutError:
        events.emit("stop", code="runner_error", text=f"no plan came within {_FIRST_LINE_S:g} s")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        events.emit("stop", code="runner_error", text=f"the plan cannot be read: {type(error).__name__}: {error}")
    events.step = ""
    events.emit("end")
    sys.stdout.flush()
    return 0 if complete else 1
