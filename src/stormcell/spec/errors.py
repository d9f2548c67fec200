"""Every error that a user can meet, as one small tree.

    StormcellError
    ├── SpecError            the input is wrong: nothing was started
    ├── HostError            this machine lacks something
    │   ├── MissingTool      a program or package is not installed
    │   ├── NoSpace          no room on a disk
    │   ├── NoPermission     a file or device may not be used
    │   └── PortTaken        a host port is in use
    ├── MachineError         a microVM did not do what it was told
    │   └── MachineDied      its process is gone
    ├── TemplateError
    │   ├── TemplateNotFound no such recipe or name
    │   ├── TemplateBroken   its files are not the ones that were built
    │   └── BuildFailed      the guest could not be prepared; carries its console tail
    ├── SandboxError
    │   ├── SandboxNotFound  no such sandbox, or it is gone
    │   ├── SnapshotNotFound no such snapshot
    │   ├── SnapshotBroken   the files of a snapshot are not the ones that were saved
    │   ├── GuestProtocolError the guest answered something that no agent says
    │   ├── OutputLimit      a command wrote more than was asked for
    │   ├── GuestFileError   a path in the guest cannot be used; carries the guest's errno
    │   ├── CommandNotStarted no such program, user or folder: nothing ran (machine/commands.py)
    │   ├── CommandFailed    raised on request for another exit code than 0 (sandbox/results.py)
    │   └── OutcomeUnknown   a command was sent and its end was never heard of
    ├── NotSurvived          a run was to survive and did not, or proved nothing; carries its result
    └── Interrupted          the user stopped the work

Each says what happened, where, which rule it broke and how to mend it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class StormcellError(Exception):
    """The root. `what` is one sentence; the other parts are optional and printed on lines of their own."""

    exit_code = 3

    def __init__(self, what: str, *, where: str = "", rule: str = "", remedy: str = "", detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.rule = rule
        self.remedy = remedy
        self.detail = detail

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.rule:
            lines.append(f"  rule: {self.rule}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        if self.detail:
            lines += ["  detail:", *(f"    {line}" for line in self.detail.rstrip().splitlines())]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, str]:
        """The parts that are set, for `--json`."""
        parts = {k: getattr(self, k) for k in ("what", "where", "rule", "remedy", "detail")}
        return {"error": type(self).__name__, **{k: v for k, v in parts.items() if v}}


class SpecError(StormcellError):
    """The input is wrong; nothing was started."""

    exit_code = 2


class HostError(StormcellError):
    """This machine lacks something that the work needs."""

    exit_code = 2


class MissingTool(HostError):
    """A program or package is not installed."""


class NoSpace(HostError):
    """No room on a disk."""


class NoPermission(HostError):
    """A file or device may not be used by this user."""


class PortTaken(HostError):
    """A host port that was asked for is in use."""


class MachineError(StormcellError):
    """A microVM did not do what it was told."""


class MachineDied(MachineError):
    """The microVM's process is gone, and nobody asked for that."""


class TemplateError(StormcellError):
    """A template cannot be used."""


class TemplateNotFound(TemplateError):
    """There is no recipe file or template of that name."""

    exit_code = 2


class TemplateBroken(TemplateError):
    """The files of a template are not the ones that were built."""


class BuildFailed(TemplateError):
    """The guest could not be prepared; `detail` is its console tail or the script's output."""


class SandboxError(StormcellError):
    """A sandbox cannot be used."""


class SandboxNotFound(SandboxError):
    """No such sandbox, or it is gone."""

    exit_code = 2


class SnapshotNotFound(SandboxError):
    """There is no snapshot of that name."""

    exit_code = 2


class SnapshotBroken(SandboxError):
    """The files of a snapshot are not the ones that were saved."""


class GuestProtocolError(SandboxError):
    """The guest answered something that no agent says; nothing it wrote is trusted further."""


class OutputLimit(SandboxError):
    """A command wrote more than the caller allowed; its process tree was killed."""


class GuestFileError(SandboxError):
    """A path in the guest cannot be used; `errno` is the guest kernel's."""

    def __init__(self, what: str, *, errno: int, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.errno = errno


class OutcomeUnknown(SandboxError):
    """A command was sent and its end was never heard of. It may have run, in part or whole."""

    exit_code = 4


class NotSurvived(StormcellError, AssertionError):
    """A run was to survive and failed, or is void or unknown. `result` is a Result, `folder` the run's."""

    exit_code = 1

    def __init__(self, what: str, *, result: Any, folder: Path, detail: str = "") -> None:
        super().__init__(what, detail=detail)
        self.result = result
        self.folder = folder
        self.of_mark = False
        """A test's mark asked for the run, so that no line of the test raised this."""


class Interrupted(StormcellError):
    """The user stopped the work; what had been started was released."""

    exit_code = 4
