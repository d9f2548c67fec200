"""Commands of ours that share a child come out as if each had one."""

import json
from collections.abc import Mapping
from typing import Any

from stormcell.guest.lifeline import Lifeline
from stormcell.guest.running import Finished, Runnery

OURS = "stormcell-guest"
HANGS = {"argv": [OURS, "clock", "gaps", "60"], "timeout_s": 0.5}
NO_SUCH = {"argv": [OURS, "clock", "no-such"]}
SHELL = {"argv": ["sh", "-c", "echo here; exit 3"], "accept": [3]}


def needs(name: str) -> dict[str, object]:
    return {"argv": [OURS, "needs"], "stdin": json.dumps({name: {"programs": ["sh"]}})}


def run_all(*commands: Mapping[str, Any], until_failure: bool = False) -> list[Finished]:
    return Runnery(Lifeline(None)).run_all(commands, until_failure=until_failure)


def test_each_has_its_own_streams_and_exit_code() -> None:
    first, second, third, fourth = run_all(needs("one"), NO_SUCH, SHELL, needs("two"))
    assert (first.outcome, json.loads(first.out), first.err) == (0, {"one": []}, "")
    assert (second.outcome, second.out, "usage" in second.err) == (2, "", True)
    assert (third.outcome, third.out) == (3, "here\n")
    assert json.loads(fourth.out) == {"two": []}


def test_one_that_hangs_is_killed_alone() -> None:
    first, hung, third = run_all(needs("one"), HANGS, needs("three"))
    assert (first.outcome, hung.outcome, hung.out, third.outcome) == (0, "timeout", "", 0)
    assert hung.output()["exit"] is None


def test_one_whose_child_dies_is_known_by_how_it_died() -> None:
    dies = {"argv": [OURS, "clock", "gaps", "not a number"]}
    first, second, third = run_all(needs("one"), dies, needs("three"))
    assert (first.outcome, second.outcome, third.outcome) == (0, 1, 0)
    assert "could not convert" in second.err


def test_until_failure_nothing_runs_after_the_first_that_failed() -> None:
    assert [done.outcome for done in run_all(needs("one"), NO_SUCH, needs("two"), until_failure=True)] == [0, 2]
    assert [done.outcome for done in run_all(NO_SUCH, until_failure=True)] == [2]
    assert [done.outcome for done in run_all(needs("one"), HANGS, needs("two"), until_failure=True)] == [0, "timeout"]
    assert [done.outcome for done in run_all(SHELL, needs("one"), until_failure=True)] == [3, 0]


def test_much_output_is_cut() -> None:
    long = {"argv": [OURS, "needs"], "stdin": json.dumps({"é" * 200_000: {}})}
    first, second = run_all(long, needs("two"))
    assert (first.truncated, len(first.out.encode()) <= 256 << 10, second.outcome) == (True, True, 0)
