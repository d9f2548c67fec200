"""Faults that want one thing by two names, which is known only in the guest: the second is refused, by name."""

import asyncio

import pytest

from stormcell.sandbox.api import AsyncSandbox
from tests.guest.engine.conftest import codes

GROUP = "/sys/fs/cgroup/services/v"


def test_void_when_two_fill_one_file_system_and_the_reason_names_both(outcome_of):
    fill = {"kind": "disk.fill", "leave": "5%"}
    outcome = outcome_of(None, faults={"full": {**fill, "path": "/srv"}, "fuller": {**fill, "path": "/var/tmp"}})
    assert outcome.verdict == "void"
    assert codes(outcome)[0] == "apply_failed"
    assert outcome.result.reasons[0].text == (
        "'fuller' (disk.fill): the file system that holds /var/tmp (/) is already filled by the fault 'full'"
    )
    assert "not_recovered" not in codes(outcome)
    assert [fault.clean for fault in outcome.result.faults] == [True, True]


@pytest.mark.parametrize(
    ("first", "second", "undo", "said"),
    [
        ("fill blocks a /srv nobody 90%", "fill inodes b /tmp 99%", "fill clear {} /srv", "already filled"),
        (
            f"cgroup set a cpu.stat cgroup {GROUP} 'cpu.max=20000 100000'",
            "cgroup set b cpu.stat service v 'cpu.max=30000 100000'",
            "cgroup restore {}",
            "already set",
        ),
        (
            f"iolimit act a /srv wbps=1048576 cgroup {GROUP}",
            "iolimit act b /var wbps=2097152 service v",
            "iolimit restore {}",
            "already set",
        ),
    ],
)
def test_a_tool_refuses_what_another_fault_has(sandbox_sh, first, second, undo, said):
    """And it can be had once it was given back; the refused one's undo takes nothing from the other."""
    tool = "stormcell-guest"
    sandbox_sh(f"{tool} {first} >/dev/null")
    refused = sandbox_sh(f"{tool} {second}; echo $?")
    assert f"{said} by the fault 'a'" in refused
    assert refused.splitlines()[-1] == "1"
    again = sandbox_sh(f"{tool} {undo.format('b')}; {tool} {second}; echo $?")
    assert f"{said} by the fault 'a'" in again
    done = sandbox_sh(f"{tool} {undo.format('a')}; {tool} {second} >/dev/null; echo $?; {tool} {undo.format('b')}")
    assert done.splitlines()[0] == "0", done


@pytest.fixture(scope="module")
def sandbox_sh(own_home, template):
    """Runs a script in one sandbox with a service-like cgroup and a process of nobody's in it."""
    runner = asyncio.Runner()
    sandbox = runner.run(AsyncSandbox.create(template, ttl_seconds=300))

    def sh(script: str) -> str:
        done = runner.run(sandbox.exec(f"exec 2>&1; {script}", timeout=60))
        return done.text

    sh(
        f"mkdir -p {GROUP}; echo +cpu +io > /sys/fs/cgroup/services/cgroup.subtree_control; "
        f"setpriv --reuid nobody sleep 600 >/dev/null 2>&1 & echo $! > {GROUP}/cgroup.procs"
    )
    yield sh
    runner.run(sandbox.kill())
    runner.close()
