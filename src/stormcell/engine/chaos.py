"""`chaos`: a fault in force around lines of a program, with the receipts and the judge of an experiment."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from stormcell.engine.api import check_verdict
from stormcell.engine.around import LINES, Around, plan_around, where_of
from stormcell.engine.folder import RunFolder
from stormcell.engine.load import check_together, disturbance
from stormcell.engine.receipts import receipt
from stormcell.engine.times import contradictions
from stormcell.faults.machine_crash import MachineCrash
from stormcell.judge.verdict import judge
from stormcell.sandbox.api import AsyncSandbox, Sandbox
from stormcell.sandbox.bridge import Bridge
from stormcell.sandbox.link import to_the_end
from stormcell.sandbox.record import Record
from stormcell.spec.errors import SandboxNotFound, SpecError
from stormcell.spec.experiment import Experiment
from stormcell.spec.fault import Fault
from stormcell.spec.home import Home
from stormcell.spec.receipt import Receipt
from stormcell.spec.schedule import Disturbance
from stormcell.spec.value import nearest
from stormcell.spec.verdict import Result, Verdict
from stormcell.spec.witness import tell
from stormcell.spec.yamlfile import Document, validated
from stormcell.template.model import Template
from stormcell.template.store import Store

T = TypeVar("T")
Faults = str | Fault | Mapping[str, Any]

_in_force: dict[str, list[Disturbance]] = {}
"""What this process has in force now, by sandbox."""


def chaos(
    sandbox: Sandbox | AsyncSandbox,
    fault: Faults,
    /,
    *,
    check: bool = True,
    within: str | None = None,
    question: str = "",
    deadline: str = "10m",
    runs: Path | None = None,
    **params: Any,
) -> Chaos:
    """A context manager: the fault is in force while its lines run, and undone after them. The sandbox lives on.

    `fault` is a kind, with its parameters as keywords; or a mapping with `kind`, parameters and perhaps a `schedule`;
    or several such by name. Use `with` for a Sandbox, `async with` for an AsyncSandbox. Blocks may be nested.

    When the lines ended without an exception, NotSurvived is raised unless the run survived: the kernel showed the
    fault in force at the beginning and at the end, it touched something, nothing is left of it, and the lines took no
    longer than `within`. With `check=False` the caller looks at `verdict`. An exception of the lines goes on, with a
    note of what the fault did. Before the lines NotSurvived is raised for a fault that this guest cannot do.

    The run has a folder like any other (below `runs`), which `stormcell judge` and `stormcell report` read.
    The fault is undone at the `deadline` at the latest, also when this process is gone.

    Raises SpecError for a fault that is wrong; SandboxNotFound, TemplateError, MachineError.
    """
    where = where_of(sys._getframe(1))
    mapping = _mapping(fault, params)
    text: dict[str, Any] = {
        "name": mapping.get("kind", "chaos"),
        "question": question or f"Do the lines from {where} on hold under it?",
        "steady_state": [
            {
                "name": LINES,
                "command": {"run": [where]},
                "expect": {"exit_code": 0, **({"seconds": f"<= {within}"} if within else {})},
            }
        ],
        "fault" if "kind" in mapping else "faults": mapping,
        "deadline": deadline,
    }
    return Chaos(sandbox, text, where, check, runs)


def _mapping(fault: Faults, params: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(fault, str):
        return {"kind": fault, **params}
    if params:
        unknown = ", ".join(params)
        raise SpecError(f"'{unknown}' beside a fault that is whole", rule="parameters go with a kind, as keywords")
    return {"kind": fault.kind, **fault.params()} if isinstance(fault, Fault) else dict(fault)


class Chaos:
    """Made by `chaos`. `result`, `receipts` and `folder` say what came of it once the lines are over."""

    def __init__(
        self, sandbox: Sandbox | AsyncSandbox, text: Mapping[str, Any], where: str, check: bool, runs: Path | None
    ) -> None:
        self.sandbox = sandbox
        self.result: Result | None = None
        self.receipts: dict[str, Receipt] = {}
        self.folder = Path()
        self._text, self._where, self._check, self._runs = text, where, check, runs
        self._items: tuple[Disturbance, ...] = ()
        self._around: Around | None = None
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0

    @property
    def verdict(self) -> Verdict | None:
        """`survived`, `failed`, `void` or `unknown`; None while the lines run."""
        return self.result.verdict if self.result else None

    async def __aenter__(self) -> Self:
        __tracebackhide__ = True
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        await to_the_end(self._end(error, time.monotonic() - self._began))
        self._say(error)

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        self._sync(self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        seconds = time.monotonic() - self._began
        self._sync(lambda: self._end(error, seconds))
        self._say(error)

    def _sync(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        __tracebackhide__ = True
        if isinstance(self.sandbox, AsyncSandbox):
            raise SpecError("an AsyncSandbox needs `async with`")
        return Bridge.current().run(work())

    async def _begin(self) -> None:
        __tracebackhide__ = True
        if self._around is not None:
            raise SpecError("a block of chaos is used once", remedy="call `chaos` again")
        home = Home.current()
        template = _template(self.sandbox, home)
        experiment, self._items = _checked(
            {**self._text, "template": template.name}, template, self.sandbox.id, self._where
        )
        plan = plan_around(experiment, self._items, where=self._where, template_digest=template.digest)
        folder = RunFolder.create(self._runs or home.runs, plan.experiment)
        try:
            folder.write_json("spec.json", experiment.model_dump(mode="json", by_alias=True))
            folder.write_json("plan.json", plan.model_dump(mode="json"))
        except BaseException:
            folder.discard()
            raise
        self.folder = folder.path
        self._around = around = Around(plan, template, folder, lambda _: None, self.sandbox.id)
        self._task = asyncio.create_task(around.perform())
        _in_force.setdefault(self.sandbox.id, []).extend(self._items)
        there = asyncio.create_task(around.in_force.wait())
        try:
            await asyncio.wait({self._task, there}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException as error:
            await to_the_end(self._end(error, 0.0))
            raise
        finally:
            there.cancel()
        if not around.in_force.is_set():
            await self._end(None, 0.0)
            assert self.result is not None
            self._task.result()
            check_verdict(self.result, folder.path)
        self._began = time.monotonic()

    async def _end(self, error: BaseException | None, seconds: float) -> None:
        """The undo, the last readings, the verdict."""
        around, task = self._around, self._task
        assert around is not None and task is not None
        around.lines_ended(seconds, error)
        if not around.in_force.is_set():
            task.cancel()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await to_the_end(_wait(task))
            raise
        finally:
            mine = _in_force.get(self.sandbox.id, [])
            _in_force[self.sandbox.id] = [item for item in mine if item not in self._items]
            self._conclude(around)

    def _conclude(self, around: Around) -> None:
        around.folder.close()
        self.receipts = {item.id: receipt(item, around.plan, around.events) for item in self._items}
        around.folder.save_receipts(self.receipts)
        self.result = judge(around.plan, around.events, self.receipts)
        around.folder.save_result(self.result)
        tell(self.result, around.folder.path)

    def _say(self, error: BaseException | None) -> None:
        __tracebackhide__ = True
        assert self.result is not None
        if error is None and self._check:
            check_verdict(self.result, self.folder)
        elif isinstance(error, Exception):
            told = "; ".join(_told(item) for item in self.receipts.values())
            error.add_note(f"stormcell: under {told}; the run's folder: {self.folder}")


async def _wait(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


def _told(item: Receipt) -> str:
    name = item.kind if item.fault == "fault" else f"'{item.fault}' ({item.kind})"
    if not item.in_force:
        return f"{name}, which was not in force" if item.in_force is False else f"{name}, without a complete receipt"
    return f"{name} ({item.acted if item.acted is not None else '?'} {item.counts})"


def _template(sandbox: Sandbox | AsyncSandbox, home: Home) -> Template:
    record = Record.read(sandbox.folder)
    if record is None:
        raise SandboxNotFound(f"the sandbox '{sandbox.id}' is gone", where=str(sandbox.folder))
    return Store(home).open(record.template)


def _checked(
    text: dict[str, Any], template: Template, sandbox: str, where: str
) -> tuple[Experiment, tuple[Disturbance, ...]]:
    """What an experiment's file is checked for. Raises SpecError."""
    document = Document(text, where)
    there = _in_force.get(sandbox, [])
    if "fault" in text and any(item.id == "fault" for item in there):
        # receipts in the guest have the names of faults
        fault = text.pop("fault")
        text["faults"] = {f"{fault['kind']}-{len(there) + 1}": fault}
    experiment = validated(document, Experiment.model_validate, "chaos")
    found: list[Disturbance] = []
    for number, (name, mapping) in enumerate(experiment.disturbances.items(), len(there) + 1):
        one = disturbance(
            name, number, mapping, document, ("fault",) if experiment.faults is None else ("faults", name)
        )
        if isinstance(one.fault, MachineCrash):
            raise SpecError(
                f"{one.fault.kind} cannot be around lines: it ends the machine that they use",
                rule="a crash is an experiment of its own",
                remedy="write it as one, and use stormcell.run",
            )
        if any(item.id == name for item in there):
            raise SpecError(f"a fault '{name}' is in force there already", remedy="give it another name")
        service = getattr(one.fault, "service", None)
        if service is not None and service not in template.services:
            hint = nearest(service, template.services) if template.services else "it has no services"
            raise SpecError(f"the template '{template.name}' has no service '{service}'; {hint}", where=where)
        for other in (*there, *found):
            check_together(other, one, where)
        found.append(one)
    for wrong in contradictions(experiment, found):
        raise SpecError(f"{'.'.join(wrong.at)}: {wrong.what}", where=where, rule=wrong.rule, remedy=wrong.remedy)
    return experiment, tuple(found)
