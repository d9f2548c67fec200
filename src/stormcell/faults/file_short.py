"""`file.short`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._bpf import Often, hit, schema, target_words
from stormcell.faults._fields import GuestPath
from stormcell.faults._reading import mapping, mappings, numbers
from stormcell.faults._traced import Traced
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import Percent

OPERATIONS = ("read", "write")


class FileShort(Often, Traced):
    """Reads and writes of a service or of some processes on a file, or on all below a folder, do only a part.

    A tracer of ours (ptrace) lowers the number of bytes that the call asks for before the kernel sees it, and puts the
    register back at its end: the kernel does what it was asked, and the program is told truthfully how much that was.
    Files that are open already are met too, and nothing is mounted.
    """

    kind = "file.short"
    needs = Needs(paths=("/proc/self/syscall",))
    counts = "reads and writes that did as much as they were cut down to"
    proves = "the kernel's own result of each such call, which is the smaller number of bytes; TracerPid of each thread"
    example: ClassVar[dict[str, Any]] = {
        "kind": "file.short", "service": "postgresql", "path": "/var/lib/postgresql", "operation": "write",
        "share": "30%", "rate": "10%",
    }  # fmt: skip

    path: GuestPath
    """A file, or a folder: all files below it; by the name under which a file was opened, without symbolic links."""
    operation: Annotated[tuple[str, ...], *schema(OPERATIONS)] = OPERATIONS
    """`read` (read, pread64), `write` (write, pwrite64), or both. Only on regular files, of more than one byte."""
    share: Percent = Field(default=50.0)
    """How much of what was asked for is done: at least one byte, and one less than all."""

    @model_validator(mode="after")
    def _a_part(self) -> FileShort:
        if not 0 < self.share < 100:
            raise ValueError(f"a share of {self.share:g}% is none of a part; it is more than 0% and less than 100%")
        return self

    def words(self) -> tuple[str, ...]:
        """Everything but the amounts."""
        return (*target_words(self), f"path={self.path}", f"operation={','.join(self.operation)}")

    def amounts(self) -> tuple[str, ...]:
        """What may change while it is in force."""
        return (f"share={round(self.share * 10_000)}", *super().amounts())

    def plan(self) -> Act:
        """A tracer in the background."""
        return Act(
            apply=(Command(argv=(GUEST, "shorten", "start", self.id, *self.words(), *self.amounts())),),
            undo=(Command(argv=(GUEST, "shorten", "stop", self.id)),),
            read=(Command(argv=(GUEST, "shorten", "show", self.id), name="short"),),
        )

    def change(self, to: FileShort) -> tuple[Command, ...] | None:
        """Share, rate, every and limit."""
        if self.words() != to.words():
            return None
        return (Command(argv=(GUEST, "shorten", "change", self.id, *to.amounts())),)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The tracer has its orders, and the kernel names it as the tracer of each thread that it has."""
        was, now = mapping(before, "short"), mapping(during, "short").get("tracer")
        asked = dict(word.split("=", 1) for word in (*self.words(), *self.amounts()))
        return (
            was.get("left") is False
            and isinstance(now, dict)
            and now.get("ready") is True
            and now.get("config") == asked
            and now.get("threads") == now.get("held")
        )

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Threads come and go: one that ends just now has no tracer any more."""
        now = mapping(after, "short").get("tracer")
        then = mapping(during, "short").get("tracer")
        return isinstance(now, dict) and isinstance(then, dict) and now.get("config") == then.get("config")

    def acted(self, during: Reading, after: Reading) -> int:
        """By the result that the kernel gave."""
        return max(0, numbers(mapping(after, "short").get("tracer")).get("acted", 0))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """No tracer."""
        now = mapping(undone, "short")
        return bool(now) and now.get("tracer") is None and now.get("left") is False

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """By process."""
        told = mapping(after, "short").get("tracer")
        hits = mappings(told.get("hits")) if isinstance(told, dict) else []
        return tuple(hit(one) for one in hits[:24])

    def cannot_know(self) -> tuple[str, ...]:
        """The price of tracing, and what is not met."""
        return (
            "every system call of the target is slower while it is traced, those that are not meant too",
            "readv, writev, sendfile, splice, io_uring, mapped files and 32-bit programs are not met",
            "a call that waits when the tracer comes can return with EINTR once, as after SIGSTOP and SIGCONT",
        )
