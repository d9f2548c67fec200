"""`disk.quota`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from stormcell.faults._disk import TRACEPOINT, all_refused, none_refused
from stormcell.faults._fields import Documented, GuestPath, UserName
from stormcell.faults._reading import counted, mapping, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import Size

UNIT = 1024


class DiskQuota(Documented):
    """A user, or everybody in a folder, gets no more room: writes come back with EDQUOT, though the disk has room."""

    kind = "disk.quota"
    needs = Needs(modules=("quota_v2",), paths=(TRACEPOINT,))
    counts = "system calls of other processes that came back with EDQUOT"
    proves = (
        "the quota as the kernel has it, a probe's own writes as that user, all refused, and the count of refused calls"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "disk.quota", "path": "/var/lib/app", "user": "app", "leave": "0B"}

    path: GuestPath
    """A folder on a file system that keeps quotas, as the data volumes of a template do."""
    user: UserName = "nobody"
    """Whose quota it is, or (`of: folder`) as whom it is tried. Not root, whom the kernel lets exceed quotas."""
    of: Literal["user", "folder"] = "user"
    """`user`: all files of the user on that file system. `folder`: all files in the folder, whosever they are."""
    leave: Size | None = None
    """How much may still be written."""
    leave_files: Annotated[int, Field(strict=True, ge=0)] | None = None
    """How many files may still be made."""

    @model_validator(mode="after")
    def _sensible(self) -> DiskQuota:
        if self.user in ("root", "0"):
            raise ValueError("the kernel lets root exceed every quota (CAP_SYS_RESOURCE); name another user")
        if self.leave is None and self.leave_files is None:
            raise ValueError("'leave' or 'leave_files' is needed, for example leave: 0B")
        return self

    def plan(self) -> Act:
        """A mark says which limits were there."""
        bytes_left = "-" if self.leave is None else str(self.leave)
        files_left = "-" if self.leave_files is None else str(self.leave_files)
        words = (self.path, self.user, self.of, bytes_left, files_left)
        return Act(
            apply=(Command(argv=(GUEST, "quota", "act", self.id, *words)),),
            undo=(Command(argv=(GUEST, "quota", "restore", self.id)),),
            read=(Command(argv=(GUEST, "quota", "show", self.id, *words), name="quota"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The limit is what usage and `leave` make it, it was not there, and the user is refused now and was not."""
        was, now = mapping(before, "quota"), mapping(during, "quota")
        if was.get("act") is not None or not none_refused(was) or not all_refused(now):
            return False
        return was.get("limit") != now.get("limit") and self._limited(now)

    def _limited(self, now: dict[str, Any]) -> bool:
        act, limit = now.get("act"), numbers(now.get("limit"))
        if not isinstance(act, dict) or (act.get("path"), act.get("tree")) != (self.path, self.of == "folder"):
            return False
        wanted = numbers(act)
        room = limit.get("block_limit", 0) * UNIT - limit.get("used", 0)
        files = limit.get("file_limit", 0) - limit.get("files", 0)
        return (
            (self.leave is None or (limit.get("block_limit", 0) > 0 and room <= self.leave + UNIT))
            and (self.leave_files is None or (limit.get("file_limit", 0) > 0 and files <= max(1, self.leave_files)))
            and all(limit.get(name) == wanted.get(name) for name in ("block_limit", "file_limit"))
        )

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """The limit stayed, whatever room the target has given back meanwhile."""
        limits = [numbers(mapping(r, "quota").get("limit")).get("block_limit") for r in (during, after)]
        files = [numbers(mapping(r, "quota").get("limit")).get("file_limit") for r in (during, after)]
        return limits[0] == limits[1] is not None and files[0] == files[1]

    def acted(self, during: Reading, after: Reading) -> int:
        """Refused calls."""
        return sum(counted(mapping(after, "quota").get("refused")).values())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The old limits, nothing counts."""
        was, now = mapping(before, "quota"), mapping(undone, "quota")
        if not now:
            return not was
        kept = [numbers(shown.get("limit")) for shown in (was, now)]
        same = all(kept[0].get(name) == kept[1].get(name) for name in ("block_limit", "file_limit"))
        return same and (now.get("act"), now.get("refused")) == (None, None)

    def conflicts(self, other: Fault) -> str | None:
        """One user has one limit."""
        if isinstance(other, DiskQuota) and (other.path, other.of) == (self.path, self.of):
            return f"two disk.quota of {self.path}: a file system keeps one limit for each"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Whose quota, who was refused."""
        now = mapping(after, "quota")
        limit = numbers(now.get("limit"))
        if not limit:
            return ()
        said = (
            f"{now.get('whose')} uses {limit.get('used', 0)} bytes in {limit.get('files', 0)} files on {now.get('on')}"
        )
        refused = numbers(now.get("refused"))
        return (said, *(f"{process} got EDQUOT {count} times" for process, count in refused.items()))

    def cannot_know(self) -> tuple[str, ...]:
        """Root, and what a project changes."""
        said = ["processes with CAP_SYS_RESOURCE (root) exceed quotas; overwriting what a file has needs no room"]
        if self.of == "folder":
            said.append("while the folder is a project, files are not renamed into it from elsewhere (EXDEV)")
        return tuple(said)
