"""Take CPUs away from the whole guest, and bring them back."""

from __future__ import annotations

import os
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common
from stormcell.guest.tools.cgroup import cpus

FOLDER = "/sys/devices/system/cpu"


def take(mark: str, leave: str) -> dict[str, Any]:
    """Leave so many CPUs online: the first ones. Raises ValueError when there are not more than that."""
    online = cpus(common.read_text(f"{FOLDER}/online") or "")
    chosen = [cpu for cpu in online[int(leave) :] if os.path.exists(_switch(cpu))]
    if len(online) <= int(leave):
        many = "one CPU" if len(online) == 1 else f"{len(online)} CPUs"
        raise ValueError(
            f"the guest has {many} online, so it cannot be left with {leave}; give its template more vcpus"
        )
    if len(online) - len(chosen) > int(leave):
        raise ValueError("not all of the CPUs can be switched off here")
    common.put_mark(mark, {"taken": chosen, "online": online})
    for cpu in reversed(chosen):
        write_file(_switch(cpu), "0")
    return {"taken": chosen}


def give(mark: str) -> None:
    """Back online. May be said twice."""
    known = common.get_mark(mark)
    if not known:
        return
    for cpu in known["taken"]:
        if (common.read_text(_switch(cpu)) or "").strip() == "0":
            write_file(_switch(cpu), "1")
    common.drop_mark(mark)


def show(mark: str) -> dict[str, Any]:
    """The CPUs that are online, those that were taken, and how many tasks can run."""
    known = common.get_mark(mark) or {}
    online = cpus(common.read_text(f"{FOLDER}/online") or "")
    return {"online": online, "taken": known.get("taken"), "at_act": known.get("online")}


def _switch(cpu: int) -> str:
    return f"{FOLDER}/cpu{cpu}/online"


def main(argv: list[str]) -> int:
    """`online take|give|show`."""
    return common.serve("online", {"take": take, "give": give, "show": show}, argv)
