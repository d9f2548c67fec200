"""What a dry run prints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stormcell.engine.branches.plans import compile_all
from stormcell.engine.compile import compile_plan
from stormcell.engine.load import Loaded
from stormcell.spec.fault import Command
from stormcell.spec.plan import Plan, PlannedAbort, PlannedFault, Step
from stormcell.spec.units import duration_text

if TYPE_CHECKING:
    from stormcell.cli.screen import Screen


def plan_data(loaded: Loaded, only: Sequence[str] = ()) -> dict[str, Any]:
    """The plan as JSON data; with branches that of the drive, and theirs by name."""
    if not loaded.branches:
        return compile_plan(loaded.experiment, loaded.disturbances).model_dump(mode="json")
    drive, plans = compile_all(loaded, only=only)
    return {
        "drive": drive.model_dump(mode="json"),
        "branches": {name: plan.model_dump(mode="json") for name, plan in plans.items()},
    }


def show_plan(loaded: Loaded, only: Sequence[str] = ()) -> None:
    """The plan as a table: every step, who carries it out, and what it does to the word."""
    from rich.markup import escape

    from stormcell.cli.screen import Screen

    console = Screen(piped=None)
    if not loaded.branches:
        plan = compile_plan(loaded.experiment, loaded.disturbances)
        _show_head(console, plan)
        _show_steps(console, plan)
        return
    drive, plans = compile_all(loaded, only=only)
    _show_head(console, drive)
    _show_steps(console, drive)
    for name, plan in plans.items():
        expected = f", expected: {plan.prediction.verdict}" if plan.prediction else ""
        console.print(f"\n[bold]{escape(name)}[/bold], forked from that instant{expected}")
        _show_steps(console, plan)


def _show_head(console: Screen, plan: Plan) -> None:
    from rich.markup import escape

    console.print(f"[bold]{plan.experiment}[/bold]  {escape(plan.question)}")
    each = " each" if plan.branches else ""
    limit = f"at most {duration_text(plan.deadline_s)}{each}"
    console.print(f"template {escape(plan.template)}, {limit}; nothing is started\n")


def _show_steps(console: Screen, plan: Plan) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("#", "phase", "on", "step", "what"):
        table.add_column(heading, no_wrap=heading in ("phase", "on", "step"))
    for number, step in enumerate(plan.steps, 1):
        table.add_row(str(number), step.phase, step.on, escape(step.id), escape(_what(step, plan)))
    console.print(table)


def _what(step: Step, plan: Plan) -> str:
    match step.do:
        case "run" | "load":
            return _shell(step.command)
        case "unload":
            return f"SIGTERM, after {step.grace_s:g} s SIGKILL"
        case "needs":
            fault = plan.faults[step.fault]
            named = [*fault.needs.programs, *fault.needs.modules, *fault.needs.paths]
            return f"{fault.kind} needs {', '.join(named) or 'nothing beyond the base guest'}"
        case "probe" | "recover":
            bounds = ", ".join(f"{b.metric} {b.text}" for b in step.bounds)
            limit = f" within {step.within_s:g} s" if step.do == "recover" else ""
            gate = "; otherwise void" if step.do == "probe" and step.gate else ""
            return f"{_probe(step.probe, plan)}: {bounds}{limit}{gate}"
        case "apply":
            return _applied(plan.faults[step.fault])
        case "undo":
            return _commands(plan.faults[step.fault].undo) or "nothing to undo"
        case "inventory":
            return "what the guest consists of: queues, rules, mounts, sysctls, cgroups, clocks, processes"
        case "watch":
            return "\n".join(f"abort when {_condition(abort)}, every {abort.every_s:g} s" for abort in plan.aborts)
        case "wait":
            if step.schedules:
                return "until every schedule is over"
            return (
                f"until {plan.experiment} was {step.seconds:g} s under the fault"
                if step.since_act
                else (f"{step.seconds:g} s")
            )
        case "moment":
            looks = f", looked for every {step.every_s:g} s; otherwise void after {step.within_s:g} s"
            return f"until {step.text}{looks if step.after_s is None else ''}"
        case "fork":
            return f"the machine is paused for good and forked from here: {', '.join(plan.branches)}"
        case "mark":
            return f"nothing, where the others {step.mark}"
        case "noise":
            last = "" if step.last is None else f" to {step.last - 1}"
            which = f", moments {step.first}{last or ' and later'}" if step.first or last else ""
            return f"disturb the scheduler by seed {step.seed}, about every {duration_text(step.gap_s)}{which}"
        case "quiet":
            return "end the noise"
        case "machine":
            after = f", then a cold boot within {step.boot_within_s:g} s" if step.boot else ""
            return f"{step.action} by {step.mode}{after}"


def _condition(abort: PlannedAbort) -> str:
    return f"{abort.name} " + ", ".join(f"{bound.metric} {bound.text}" for bound in abort.bounds)


def _applied(fault: PlannedFault) -> str:
    """What is done at once, or every moment of the schedule."""
    if not fault.moments:
        return _commands(fault.apply)
    lines = []
    for moment in fault.moments:
        level = fault.levels[moment.level] if fault.levels else None
        commands = (
            {"apply": level.apply, "change": level.change, "undo": level.undo}
            if level
            else {"apply": fault.apply, "undo": fault.undo}
        )
        lines.append(f"+{moment.at_s:g} s {moment.do}: {_commands(commands[moment.do])}")
    return "\n".join(lines)


def _probe(name: str, plan: Plan) -> str:
    probe = plan.probes[name]
    spec = probe.spec
    place = f"node {spec['node']}: " if spec.get("node") else ""
    if probe.kind in ("http", "tcp"):
        target = spec.get("url") or spec.get("address")
        amount = f"{spec['rate']:g}/s for {spec['duration']:g} s" if spec.get("rate") else f"{spec.get('count') or 1}x"
        return f"{place}{probe.kind} {spec.get('method', '')} {target} {amount}".replace("  ", " ")
    return f"{place}{probe.kind} {shlex.join(spec['run']) if 'run' in spec else spec.get('path')}"


def _commands(commands: tuple[Command, ...]) -> str:
    return "\n".join(_shell(command) for command in commands)


def _shell(command: Command) -> str:
    """As a person would paste it, behind the node in which it runs."""
    line = shlex.join(command.argv)
    if command.user:
        line = f"su {command.user} -c {shlex.quote(line)}"
    line = f"node {command.node}: {line}" if command.node else line
    return f"{line} <<'END'\n{command.stdin.rstrip()}\nEND" if command.stdin else line
