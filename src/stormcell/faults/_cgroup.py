"""Faults that are a limit written to a cgroup, of a service or of any other group but those of the control path."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, model_validator

from stormcell.faults._fields import Documented, GuestPath, ServiceName, one_of
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Reading

ROOT = "/sys/fs/cgroup"


def _not_ours(path: str) -> str:
    inside = path.removeprefix(ROOT)
    if not path.startswith(f"{ROOT}/") or inside == "/":
        raise ValueError(f"'{path}' is no cgroup below {ROOT}; write for example {ROOT}/services/web")
    if inside.split("/")[1] == "stormcell":
        raise ValueError(f"'{path}' belongs to the agent of the sandbox, which has to survive the fault")
    return path


Cgroup = Annotated[GuestPath, AfterValidator(_not_ours)]


class CgroupLimit(Documented):
    """One file of a cgroup gets another value; the counters of the group tell what came of it."""

    file: ClassVar[str]
    counters: ClassVar[str]
    shown: ClassVar[tuple[str, ...]]

    service: ServiceName | None = None
    """A service of the template. Either this or `cgroup`."""
    cgroup: Cgroup | None = None
    """The folder of any other cgroup, below /sys/fs/cgroup."""

    @model_validator(mode="after")
    def _one_target(self) -> CgroupLimit:
        one_of(service=self.service, cgroup=self.cgroup)
        return self

    @property
    def folder(self) -> str:
        """Of the target."""
        return self.cgroup or f"{ROOT}/services/{self.service}"

    def value(self) -> str:
        """What is written."""
        raise NotImplementedError

    def expected(self) -> str:
        """What the kernel then shows."""
        return self.value()

    def plan(self) -> Act:
        """Written by a subcommand that keeps the counters as they were, so that the act itself is counted."""
        path = f"{self.folder}/{self.file}"
        restore = (GUEST, "cgroup", "restore", self.id, path, "{before:previous}")
        return Act(
            apply=(Command(argv=(GUEST, "cgroup", "set", self.id, path, self.value(), self.counters)),),
            undo=(Command(argv=restore),),
            read=(
                Command(argv=("cat", path), name="previous"),
                Command(
                    argv=(GUEST, "cgroup", "show", self.id, self.folder, self.file, self.counters, *self.shown),
                    name="cgroup",
                ),
            ),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The value is there, and it was not there before."""
        was, now = before.text("previous"), during.text("previous")
        return bool(was) and was != now and now == self.expected()

    def counted(self, reading: Reading) -> dict[str, int]:
        """The counters since just before the act. Empty when the reading is torn."""
        now = table(self.shown_file(reading, self.counters))
        then = table(mapping(reading, "cgroup").get("at_act"))
        return {key: max(0, now[key] - then[key]) for key in now if key in then}

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The value is the old one."""
        return bool(before.text("previous")) and before.text("previous") == undone.text("previous")

    def shown_file(self, reading: Reading | None, name: str) -> str:
        """A file of the group as it was read, empty when it was not."""
        files = mapping(reading, "cgroup").get("files")
        text = files.get(name) if isinstance(files, dict) else None
        return text.strip() if isinstance(text, str) else ""


def table(text: Any) -> dict[str, int]:
    """`key value` lines, as cgroup v2 files have them."""
    pairs = (line.split() for line in text.splitlines()) if isinstance(text, str) else ()
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
