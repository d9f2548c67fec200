"""Runs with one thing about them, and the table of what each must come to."""

from collections.abc import Callable
from typing import Any

from stormcell.judge.rules import HOST_LOSSES
from stormcell.spec.plan import Moment, Plan
from stormcell.spec.probe import tolerances
from stormcell.spec.receipt import Held, Receipt
from stormcell.spec.verdict import Verdict
from tests.unit.judge.judge_story import Story, answers, crash_plan, guest_plan, receipt, rows

Run = tuple[Plan, list[dict[str, Any]], dict[str, Receipt]]


def run(plan: Plan | None = None, receipts: dict[str, Receipt] | None = None, **samples: Any) -> Run:
    plan = plan or guest_plan()
    return plan, Story(plan, **samples).whole().events, receipt(plan) if receipts is None else receipts


def with_receipt(**changes: Any) -> Run:
    plan = guest_plan()
    return plan, Story(plan).whole().events, receipt(plan, **changes)


def stopped(step: str, code: str, **samples: Any) -> Run:
    plan = guest_plan()
    return plan, Story(plan, **samples).until(step).stop(code).events, {}


def lost(code: str, after: str = "under.rows") -> Run:
    plan = guest_plan()
    story = Story(plan).until(after)
    story.host("lost", code=code, text="it is gone")
    return plan, story.events, receipt(plan, clean=None, undo_ok=None)


def without(kind: str, step: str) -> Run:
    """One event taken out, and the others numbered as if it had never been."""
    plan, events, receipts = run()
    kept = [event for event in events if not (event["event"] == kind and event.get("step") == step)]
    guest = [event for event in kept if event["on"] == "guest"]
    for number, event in enumerate(guest):
        event["n"] = number
    return plan, kept, receipts


def changed(kind: str, at: str, **fields: Any) -> Run:
    plan = guest_plan()
    story = Story(plan).whole()
    story.find(kind, at).update(fields)
    return plan, story.events, receipt(plan)


def crash(in_force: bool | None = True, what: str = "booted", **samples: Any) -> Run:
    plan = crash_plan()
    story = Story(plan, **samples)
    if what == "booted":
        return plan, story.whole().events, receipt(plan, in_force=in_force)
    story.until("act").guest("end")
    for one in ("act", "exit", what):
        story.host("machine", what=one, step="act", fault="fault", text="no agent answered")
    return plan, story.events, receipt(plan, in_force=in_force, acted=int(bool(in_force)))


def crash_while_awaited() -> Run:
    """The runner was left waiting for the machine step, so that the load ran into the crash."""
    plan = crash_plan()
    story = Story(plan).until("act")
    story.guest("await", step="act", phase="fault")
    for one in ("act", "exit", "booted"):
        story.host("machine", what=one, step="act", fault="fault")
    story.begin()
    for step in plan.steps[3:]:
        story.perform(step)
    story.guest("end")
    return plan, story.events, receipt(plan)


def interrupted_on_host() -> Run:
    plan, events, receipts = run()
    return plan, [*events, {"on": "host", "event": "interrupted", "text": "Ctrl-C"}], receipts


def no_fault() -> Run:
    plan = guest_plan()
    bare = plan.model_copy(update={"steps": tuple(s for s in plan.steps if s.do not in ("apply", "undo"))})
    return bare, Story(bare).whole().events, {}


def aborted(**receipt_changes: Any) -> Run:
    """The runner undid the fault after the stop, as it always does."""
    plan = guest_plan()
    story = Story(plan).until("under.rows")
    story.guest("abort", condition="web", text="web: success_rate is 0.2")
    story.guest("stop", code="aborted", text="web: success_rate is 0.2 (< 50%)")
    story.guest("reading", fault="fault", label="after", reading={})
    story.guest("undone", fault="fault", ok=True, outputs=[])
    story.guest("end")
    return plan, story.events, receipt(plan, **receipt_changes)


def aborted_in_the_act(*written: str) -> Run:
    """The condition was met while the act went on: nothing of it was read but what was there before and after."""
    plan = guest_plan()
    story = Story(plan).until("apply")
    story.guest("step", step="apply", phase="fault")
    for event in written:
        story.guest(event, fault="fault", undo=[], ok=True, outputs=[])
    story.guest("stop", code="aborted", text="errors: number is 4 (> 3)")
    if written:
        story.guest("reading", fault="fault", label="after", reading={})
        story.guest("undone", fault="fault", ok=True, outputs=[])
    story.guest("end")
    return plan, story.events, receipt(plan, in_force=None, acted=None) if written else {}


def differing(*items: dict[str, Any], kind: str = "net.delay") -> Run:
    plan, events, receipts = changed("inventory", "inventory.undone", differences=list(items))
    fault = plan.faults["fault"].model_copy(update={"kind": kind})
    return plan.model_copy(update={"faults": {"fault": fault}}), events, receipts


def held(*spans: tuple[float, float | None]) -> Run:
    """Cycles of a schedule: asked and had."""
    return with_receipt(held=tuple(Held(cycle=n, asked_s=asked, had_s=had) for n, (asked, had) in enumerate(spans)))


def scheduled(at: float, end: float) -> Run:
    """A fault with a schedule, in force from `at` to `end` of a run whose probes looked early."""
    plan, events, receipts = run()
    fault = plan.faults["fault"].model_copy(update={"moments": (Moment(at_s=at, do="apply"),)})
    for event in events:
        event |= {"at": at} if event["event"] == "applied" else {"at": end} if event["event"] == "undone" else {}
        event |= {"began": event["t"] - 0.05} if event["event"] == "probe" else {}
    return plan.model_copy(update={"faults": {"fault": fault}}), events, receipts


def unmeasured_under() -> Run:
    plan = guest_plan()
    bare = plan.model_copy(update={"steps": tuple(s for s in plan.steps if s.phase != "under")})
    return bare, Story(bare).whole().events, receipt(plan)


def late(began: float, attempts: int) -> Run:
    return changed("recovered", "recovery.web", began_s=began, seconds=began + 0.2, attempts=attempts)


def only_p95(**samples: Any) -> Run:
    plan = guest_plan(web=tolerances("http", {"p95": "<= 500ms"}))
    return plan, Story(plan, **samples).whole().events, receipt(plan)


def host_vantage(**samples: Any) -> Run:
    plan = guest_plan(vantage="host")
    return plan, Story(plan, **samples).whole().events, receipt(plan)


NOT_SENT = [[0.0, None, "not_started"]]
BROKEN = {"success_rate": 0.5}
SURVIVED, FAILED, VOID, UNKNOWN = Verdict.SURVIVED, Verdict.FAILED, Verdict.VOID, Verdict.UNKNOWN

QUEUE = {"what": "queues", "name": "lo root 1:", "before": None, "undone": "netem"}
OUR_DEVICE = {"what": "devices", "name": "dm stormcell-data", "before": None, "undone": "suspended 0"}
OUR_PROCESS = {"what": "processes", "name": "process 77", "before": None, "undone": "sc-fill"}
CLOCK = {"what": "clocks", "name": "realtime - boottime", "before": "1700000000.100", "undone": "1700000001.100"}
MOUNT = {"what": "mounts", "name": "/mnt", "before": None, "undone": "rw tmpfs"}

ROWS_OF_THE_TABLE: dict[str, tuple[Callable[[], Run], Verdict, str]] = {
    # survived
    "all is well": (run, SURVIVED, "survived"),
    "seen from the host": (host_vantage, SURVIVED, "survived"),
    "some attempts failed within the bound": (lambda: run(under__web=answers(failed=2)), SURVIVED, "survived"),
    "exactly at the bound": (lambda: run(under__web=answers(latency=0.5)), SURVIVED, "survived"),
    "a crash and a clean start": (crash, SURVIVED, "survived"),
    "a crash that met a waiting runner": (crash_while_awaited, SURVIVED, "survived"),
    "first try of a late turn": (lambda: late(12.0, 1), SURVIVED, "survived"),
    "last try began in time": (lambda: late(9.9, 7), SURVIVED, "survived"),
    # failed
    "too slow": (lambda: run(under__web=answers(latency=0.501)), FAILED, "out_of_bounds"),
    "too many errors": (lambda: run(under__web=answers(failed=3)), FAILED, "out_of_bounds"),
    "errors that were never started count": (
        lambda: run(under__web=answers(failed=3, failure="not_started")),
        FAILED,
        "out_of_bounds",
    ),
    "answers with a bad status": (
        lambda: run(under__web=[[0.0, 0.01, 500] for _ in range(20)]),
        FAILED,
        "out_of_bounds",
    ),
    "a number too small": (lambda: run(under__rows=rows(9.0)), FAILED, "out_of_bounds"),
    "a command that hung": (lambda: run(under__rows=rows(12.0, "timeout")), FAILED, "out_of_bounds"),
    "nobody answered and only latency counts": (
        lambda: only_p95(under__web=answers(failed=20)),
        FAILED,
        "out_of_bounds",
    ),
    "seen failing from the host": (lambda: host_vantage(under__web=answers(failed=20)), FAILED, "out_of_bounds"),
    "never recovered": (lambda: run(recovery__web=answers(10, failed=5)), FAILED, "recovery_failed"),
    "rows never came back": (lambda: run(recovery__rows=rows(0.0)), FAILED, "recovery_failed"),
    "recovered too late": (lambda: late(10.1, 3), FAILED, "recovery_failed"),
    "the undo failed": (lambda: with_receipt(undo_ok=False), FAILED, "not_recovered"),
    "something is left": (lambda: with_receipt(clean=False), FAILED, "not_recovered"),
    "a queue that nobody took away": (lambda: differing(QUEUE), FAILED, "left_behind"),
    "a device of ours that nobody took away": (lambda: differing(OUR_DEVICE), FAILED, "left_behind"),
    "a process of ours that goes on": (lambda: differing(OUR_PROCESS), FAILED, "left_behind"),
    "anything under commands of one's own": (lambda: differing(MOUNT, kind="custom.commands"), FAILED, "left_behind"),
    "a clock that stays wrong": (lambda: differing(CLOCK, kind="clock.jump"), FAILED, "left_behind"),
    "a clock that was set right after a pause": (lambda: differing(CLOCK, kind="machine.pause"), SURVIVED, "survived"),
    "a mount, under a fault of the network": (lambda: differing(MOUNT), SURVIVED, "survived"),
    "a condition met in the middle of the act": (lambda: aborted_in_the_act("receipt"), FAILED, "aborted"),
    "a condition met in the reading after it": (lambda: aborted_in_the_act("receipt", "applied"), FAILED, "aborted"),
    "a condition ended it": (aborted, FAILED, "aborted"),
    "lost rows after a crash": (lambda: crash(recovery__rows=rows(3.0)), FAILED, "recovery_failed"),
    "did not start again": (lambda: crash(what="not_booted"), FAILED, "not_booted"),
    # void
    "setup failed": (lambda: stopped("setup.1", "setup_failed"), VOID, "setup_failed"),
    "no moment of a fork": (lambda: stopped("setup.1", "no_moment"), VOID, "no_moment"),
    "unsupported": (lambda: stopped("setup.1", "unsupported"), VOID, "unsupported"),
    "load failed": (lambda: stopped("before.web", "load_failed"), VOID, "load_failed"),
    "apply failed": (lambda: stopped("under.web", "apply_failed"), VOID, "apply_failed"),
    "apply failed by its receipt": (lambda: with_receipt(apply_ok=False), VOID, "apply_failed"),
    "unsupported by its receipt": (lambda: with_receipt(missing=("program 'tc'",)), VOID, "unsupported"),
    "broken before": (
        lambda: stopped("before.rows", "broken_before", before__web=answers(failed=20)),
        VOID,
        "broken_before",
    ),
    "broken before, and the runner went on": (lambda: run(before__rows=rows(1.0)), VOID, "broken_before"),
    "broken before, seen from the host": (lambda: host_vantage(before__web=answers(failed=9)), VOID, "broken_before"),
    "nothing measured before": (lambda: run(before__web=[]), VOID, "measured_nothing"),
    "nothing sent before": (lambda: run(before__web=NOT_SENT), VOID, "measured_nothing"),
    "no number before": (lambda: run(before__rows=rows(None)), VOID, "measured_nothing"),
    "no latency before": (lambda: only_p95(before__web=answers(failed=20)), VOID, "measured_nothing"),
    "nothing measured under the fault": (lambda: run(under__web=[]), VOID, "measured_nothing"),
    "nothing sent under the fault": (lambda: run(under__web=NOT_SENT), VOID, "measured_nothing"),
    "nothing measured after": (lambda: run(recovery__rows=[]), VOID, "measured_nothing"),
    "a plan that measures nothing under the fault": (unmeasured_under, VOID, "measured_nothing"),
    "a crash that nothing follows": (lambda: run(crash_plan(boot=False)), VOID, "measured_nothing"),
    "the watchdog was faster": (lambda: stopped("under.rows", "ttl"), VOID, "ttl"),
    "a condition ended it before the fault acted": (lambda: aborted(acted=0), VOID, "never_acted"),
    "a condition ended it without a receipt": (lambda: aborted(in_force=None), VOID, "receipt_missing"),
    "a condition met before any act": (aborted_in_the_act, VOID, "aborted_before"),
    "a condition that was met all along": (lambda: stopped("apply", "aborted_before"), VOID, "aborted_before"),
    "a condition on a file that is not there": (lambda: stopped("apply", "abort_unreadable"), VOID, "abort_unreadable"),
    "a pulse that was cut": (lambda: held((5, 5.1), (5, 2.4)), VOID, "too_short"),
    "a pulse that never came": (lambda: held((5, 5.1), (5, None)), VOID, "too_short"),
    "pulses a little short": (lambda: held((5, 4.9), (5, 2.6)), SURVIVED, "survived"),
    "pulses far too long": (lambda: held((0.1, 0.6), (0.1, 0.7)), SURVIVED, "survived"),
    "a schedule between two looks": (lambda: scheduled(40.0, 50.0), VOID, "missed"),
    "not in force": (lambda: with_receipt(in_force=False), VOID, "not_in_force"),
    "never acted": (lambda: with_receipt(acted=0), VOID, "never_acted"),
    "a signal that init ignores": (lambda: crash(in_force=False, what="exit"), VOID, "not_in_force"),
    "no receipt": (lambda: run(receipts={}), VOID, "receipt_missing"),
    "no judgement of force": (lambda: with_receipt(in_force=None), VOID, "receipt_missing"),
    "no count": (lambda: with_receipt(acted=None), VOID, "receipt_missing"),
    "no look after the undo": (lambda: with_receipt(clean=None), VOID, "receipt_missing"),
    "no word of the undo": (lambda: with_receipt(undo_ok=None), VOID, "receipt_missing"),
    "no fault": (no_fault, VOID, "no_fault"),
    "guest says it holds": (
        lambda: changed("probe", "under.web", samples=answers(failed=20)),
        VOID,
        "guest_disagrees",
    ),
    "guest has other metrics": (lambda: changed("probe", "under.web", metrics=BROKEN), VOID, "guest_disagrees"),
    "guest forgot a metric": (lambda: changed("recovered", "recovery.rows", metrics={}), VOID, "guest_disagrees"),
    "guest stopped without cause": (lambda: stopped("before.rows", "broken_before"), VOID, "guest_disagrees"),
    "guest measured, it says": (lambda: changed("probe", "under.web", measured=False), VOID, "guest_disagrees"),
    # unknown
    "an inventory that was not taken": (lambda: without("inventory", "inventory.undone"), UNKNOWN, "incomplete"),
    "interrupted in the guest": (lambda: stopped("under.rows", "interrupted"), UNKNOWN, "interrupted"),
    "interrupted on the host": (interrupted_on_host, UNKNOWN, "interrupted"),
    "lost by an interruption": (lambda: lost("interrupted"), UNKNOWN, "interrupted"),
    "deadline in the guest": (lambda: stopped("under.rows", "deadline"), UNKNOWN, "deadline"),
    "deadline on the host": (lambda: lost("deadline"), UNKNOWN, "deadline"),
    **{code: ((lambda code=code: lost(code)), UNKNOWN, code) for code in HOST_LOSSES},  # type: ignore[misc]
    "lost in a new way": (lambda: lost("struck_by_lightning"), UNKNOWN, "lost"),
    "stopped in a new way": (lambda: stopped("under.rows", "bored"), UNKNOWN, "lost"),
    "runner error": (lambda: stopped("under.rows", "runner_error"), UNKNOWN, "runner_error"),
    "never began": (lambda: (guest_plan(), [], {}), UNKNOWN, "no_end"),
    "ended in the middle": (lambda: (guest_plan(), Story(guest_plan()).until("undo").events, {}), UNKNOWN, "no_end"),
    "a measurement is missing": (lambda: without("probe", "under.web"), UNKNOWN, "incomplete"),
    "a recovery is missing": (lambda: without("recovered", "recovery.rows"), UNKNOWN, "incomplete"),
    "the act is missing": (lambda: without("applied", "apply"), UNKNOWN, "incomplete"),
    "the undo is missing": (lambda: without("undone", "undo"), UNKNOWN, "incomplete"),
    "nobody knows whether it started again": (lambda: crash(what="exit"), UNKNOWN, "incomplete"),
    "a gap in the guest's events": (
        lambda: (lambda r: (r[0], [e for e in r[1] if e.get("n") != 5], r[2]))(run()),
        UNKNOWN,
        "events_malformed",
    ),
    "a line that is no event": (
        lambda: (lambda r: (r[0], [*r[1], {"event": "malformed", "on": "host", "line": 9}], r[2]))(run()),
        UNKNOWN,
        "events_malformed",
    ),
    "samples of another kind": (lambda: changed("probe", "under.web", samples=rows()), UNKNOWN, "events_malformed"),
    "samples without times": (
        lambda: changed("probe", "under.web", samples=[[None, None, "timeout"]]),
        UNKNOWN,
        "events_malformed",
    ),
    "no samples at all": (lambda: changed("probe", "under.web", samples=None), UNKNOWN, "events_malformed"),
    "another probe's event": (lambda: changed("probe", "under.web", probe="rows"), UNKNOWN, "events_malformed"),
    "a step that is not planned": (lambda: changed("probe", "under.web", step="under"), UNKNOWN, "events_malformed"),
    "a measurement of the host, by the guest": (
        lambda: (lambda r: (guest_plan(vantage="host"), r[1], r[2]))(run()),
        UNKNOWN,
        "events_malformed",
    ),
    "a recovery without its time": (
        lambda: changed("recovered", "recovery.web", seconds=None),
        UNKNOWN,
        "events_malformed",
    ),
    "no clock": (lambda: changed("undone", "undo", t=None), UNKNOWN, "events_malformed"),
}
