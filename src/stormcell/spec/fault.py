"""The contract of a fault: a record and pure functions. Nothing here does anything.

`plan` compiles the parameters to commands. The engine and the runner in the guest do all that faults share: they check
the needs, take a reading, write the receipt with its undo, apply, read back, time, read, undo, read back again.
A fault judges readings, and nothing else.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr

from stormcell.spec.value import Value

GUEST = "stormcell-guest"
"""The guest file as a program: what is no plain command is a subcommand of it."""

MACHINE = "machine"
"""The virtual machine as a program: a command of a fault `on_machine` that the host carries out itself."""


class Command(Value):
    """One program to run in the guest, by argument list.

    `name` is the key of its output in a reading. `{before:NAME}` in an argument or in `stdin` of an undo stands for the
    stripped standard output of the command NAME in the reading taken before the act; the runner puts it in before the
    receipt is written, so that the undo needs nothing but the receipt.
    """

    argv: tuple[str, ...]
    name: str = ""
    stdin: str = ""
    user: str | None = None
    cwd: str | None = None
    node: str | None = None
    """Where it runs; None: in the machine itself."""
    env: dict[str, str] = Field(default_factory=dict)
    timeout_s: float = 30.0
    accept: tuple[int, ...] = (0,)
    """Exit codes that count as done."""
    nobody: int | None = None
    """The exit code that says that nobody was there to act on: of a schedule with several turns, that one passes."""


class Output(Value):
    """What a command answered. `exit` is None when it did not end by itself (signal or deadline)."""

    exit: int | None
    out: str = ""
    err: str = ""
    truncated: bool = False


class Reading(Value):
    """The kernel's answers at one moment: command name to output."""

    at: float = 0.0
    outputs: dict[str, Output] = Field(default_factory=dict)

    def text(self, name: str) -> str:
        """Stripped standard output, empty when the command failed or was not there."""
        output = self.outputs.get(name)
        return output.out.strip() if output and output.exit == 0 else ""

    def json_of(self, name: str) -> Any:
        """Decoded standard output, None when it is no JSON: a torn reading shows nothing."""
        try:
            return json.loads(self.text(name) or "null")
        except ValueError:
            return None

    def table(self, name: str) -> dict[str, int]:
        """`key value` lines with whole numbers, as cgroup v2 files have them (memory.events, cpu.stat)."""
        pairs = (line.split() for line in self.text(name).splitlines())
        return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].lstrip("-").isdigit()}


class Needs(Value):
    """What the guest must have: programs on its PATH, kernel modules (loadable or built in), paths."""

    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Act(Value):
    """What a fault compiles to. `read` runs before the act, after it, before the undo and after the undo."""

    apply: tuple[Command, ...]
    undo: tuple[Command, ...]
    read: tuple[Command, ...]
    warm: tuple[Command, ...] = ()
    """Run once before the steady state, so that first-use costs (module loading) do not fall into the fault."""


class Fault(Value):
    """The root of the catalogue. Fields are the fault's parameters.

    `kind` is its name in a spec; `proves` says in one sentence which kernel evidence shows that it acted; `counts`
    names what `acted` counts; `example` is a spec that is valid, used by the docs and the tests.
    """

    kind: ClassVar[str]
    needs: ClassVar[Needs]
    counts: ClassVar[str]
    proves: ClassVar[str]
    example: ClassVar[dict[str, Any]]
    on_machine: ClassVar[bool] = False
    """True for a fault on the machine itself, which the host carries out."""
    unavailable: ClassVar[str] = ""
    """Why no guest of today can do this kind. Such a kind is listed with its reason, and refused."""

    _id: str = PrivateAttr("fault")
    _number: int = PrivateAttr(1)

    @property
    def id(self) -> str:
        """Its name in the experiment. Marks, tables and the like that it makes carry it, so that two do not collide."""
        return self._id

    @property
    def number(self) -> int:
        """1 for the first fault of the experiment: for names that must be short (devices, handles)."""
        return self._number

    def named(self, id: str, number: int) -> Self:
        """The same fault with its place in an experiment."""
        copy = self.model_copy()
        copy._id, copy._number = id, number
        return copy

    def plan(self) -> Act:
        """Commands as data."""
        raise NotImplementedError

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Does the kernel show every requested parameter?"""
        raise NotImplementedError

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Was it still in force just before the undo?

        A target may answer to a fault by changing what is read (a database that gives room back): then what was made
        for the fault, and is still there, is what counts.
        """
        return self.in_force(before, after)

    def acted(self, during: Reading, after: Reading) -> int:
        """What it touched between the reading after the act and the one before the undo. 0: nothing."""
        raise NotImplementedError

    def change(self, to: Self) -> tuple[Command, ...] | None:
        """Commands that turn this fault, while in force, into `to` (the same but for its amounts); None: it must be
        undone and applied anew."""
        return None

    def conflicts(self, other: Fault) -> str | None:
        """Why these two cannot be in force together: one would overwrite the other, or hide it. None: they can."""
        return None

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Is nothing of it left after the undo?"""
        return not self.in_force(before, undone)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What a reader of the receipt should know: side effects seen, processes restarted, amounts."""
        return ()

    def cannot_know(self) -> tuple[str, ...]:
        """What a run with this fault does not show, in sentences for the report."""
        return ()

    def params(self) -> dict[str, Any]:
        """The parameters as a spec would write them."""
        return self.model_dump(mode="json")
