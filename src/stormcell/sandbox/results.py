"""What came of a command."""

from __future__ import annotations

from dataclasses import dataclass

from stormcell.spec.errors import SandboxError

SHOWN = 4000


class CommandFailed(SandboxError):
    """Raised on request (`check=True`) for a command that did not end with exit code 0; `result` has all of it."""

    def __init__(self, result: ExecResult, where: str) -> None:
        super().__init__(
            f"the command {result.ending()}",
            where=where,
            rule="check=True asks for exit code 0",
            detail=(result.stderr or result.stdout)[-SHOWN:].decode(errors="backslashreplace"),
        )
        self.result = result


@dataclass(frozen=True)
class ExecResult:
    """The whole of a finished command.

    Exactly one of `exit_code` and `signal` is set. `timed_out` says that the guest killed the command's whole process
    tree at its deadline; then `signal` is what the main process died of, or `exit_code` if it beat the kill.
    `duration_s` is measured on the host, from the request to the last byte.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stdout: bytes
    stderr: bytes
    duration_s: float

    @property
    def ok(self) -> bool:
        """Exit code 0, in time."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def text(self) -> str:
        """stdout as UTF-8; what is none is shown as U+FFFD."""
        return self.stdout.decode(errors="replace")

    def ending(self) -> str:
        """For a sentence that starts with `the command`."""
        if self.timed_out:
            return f"ran into its timeout after {self.duration_s:.1f} s and was killed with all its processes"
        if self.signal is not None:
            return f"was killed by signal {self.signal}"
        return f"ended with exit code {self.exit_code}"

    def shell_code(self) -> int:
        """As a shell would put it: the exit code, 128 + signal, 124 for a timeout."""
        if self.timed_out:
            return 124
        return 128 + self.signal if self.signal is not None else self.exit_code or 0
