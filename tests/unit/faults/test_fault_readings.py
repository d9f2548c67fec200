"""The faults judge what a kernel really said. Each file was recorded in a microVM; see fault_record.py."""

import json

import pytest

from stormcell.engine.receipts import in_force
from stormcell.spec.fault import Output, Reading
from tests.unit.faults.fault_cases import Recorded, compares, one, recorded

EMPTY = Reading()
ALL = recorded()
SHOWN = [r for r in ALL if r.in_force]


def ids(records: list[Recorded]) -> list[str]:
    return [record.name for record in records]


def changed(reading: Reading, name: str, old: str, new: str) -> Reading:
    """A reading in which one output says something else. Fails when it never said the old."""
    output = reading.outputs[name]
    assert old in output.out
    return Reading(outputs={**reading.outputs, name: output.model_copy(update={"out": output.out.replace(old, new)})})


@pytest.mark.parametrize("record", ALL, ids=ids(ALL))
def test_the_judgement_is_that_of_the_recording(record):
    fault = record.fault
    assert in_force(fault, record.before, record.during, record.after) is record.in_force
    assert fault.acted(record.during, record.after) == record.acted
    if record.undone is not None:
        assert fault.clean(record.before, record.undone) is record.clean


@pytest.mark.parametrize("record", ALL, ids=ids(ALL))
def test_what_was_there_before_is_not_the_fault(record):
    assert not record.fault.in_force(record.before, record.before)
    assert not record.fault.in_force(record.during, record.during) or record.fault.on_machine


@pytest.mark.parametrize("record", SHOWN, ids=ids(SHOWN))
def test_a_fault_that_stands_is_not_clean(record):
    if not record.fault.on_machine:
        assert not record.fault.clean(record.before, record.during)
        assert not record.fault.clean(record.before, record.after)


@pytest.mark.parametrize("record", ALL, ids=ids(ALL))
def test_no_reading_shows_nothing(record):
    fault = record.fault
    assert not fault.in_force(EMPTY, EMPTY)
    assert not fault.in_force(record.before, EMPTY)
    assert fault.acted(record.during, EMPTY) == 0
    assert fault.acted(EMPTY, EMPTY) == 0
    fault.notes(EMPTY, EMPTY, EMPTY)
    fault.notes(None, None, None)
    if not fault.on_machine:
        assert not fault.clean(record.before, EMPTY)


JUDGED_BY_TEXT = [record for record in ALL if record.fault.kind != "custom.commands"]


@pytest.mark.parametrize("record", JUDGED_BY_TEXT, ids=ids(JUDGED_BY_TEXT))
@pytest.mark.parametrize("torn", ["cut", "failed", "nonsense", "other json"])
def test_a_torn_reading_shows_nothing_and_breaks_nothing(record, torn):
    def tear(output: Output) -> Output:
        text = {"cut": output.out[: len(output.out) // 2], "failed": output.out, "nonsense": "}\x00{",
                "other json": '[{"a": [1, null, {"b": "c"}]}, 3]'}[torn]  # fmt: skip
        return Output(exit=1 if torn == "failed" else 0, out=text)

    reading = Reading(outputs={name: tear(output) for name, output in record.during.outputs.items()})
    fault = record.fault
    console_alone = fault.on_machine and torn == "cut"
    assert not fault.in_force(record.before, reading) or console_alone
    assert fault.acted(record.during, reading) == 0 or console_alone
    fault.notes(record.before, reading, reading)
    fault.clean(record.before, reading)


OTHER_PARAMETERS = [
    ("dns.drop", {"devices": ["lo", "eth1"]}),
    ("memory.limit", {"max": "33MiB"}),
    ("cpu.limit", {"percent": "21%"}),
    ("cpu.limit", {"period": "90ms"}),
    ("clock.jump", {"by": "-2h"}),
    ("clock.jump", {"by": "1h"}),
    ("clock.jump", {"by": "-67m"}),
    ("clock.drift", {"by": "-5.016%"}),
    ("clock.drift", {"by": "5.015%"}),
    ("clock.drift", {"by": "-5%"}),
    ("clock.slow", {"speed": "41%"}),
    ("clock.slow", {"step": "21ms"}),
    ("clock.strobe", {"by": "61m"}),
    ("clock.strobe", {"period": "101ms"}),
    ("clock.leap", {"second": "delete"}),
    ("clock.leap.delete", {"second": "insert"}),
    ("clock.leap", {"lead": "2500ms"}),
    ("clock.zone", {"zone": "Asia/Tokyo"}),
    ("clock.namespace", {"monotonic": "25h"}),
    ("clock.namespace", {"boottime": "1d"}),
    ("clock.namespace", {"service": None}),
    ("syscall.seccomp", {"call": "fdatasync"}),
    ("syscall.seccomp", {"errno": "ENOSPC"}),
    ("syscall.seccomp", {"rate": "99%"}),
    ("syscall.seccomp.commands", {"every": 4}),
    ("syscall.seccomp.commands", {"exact": None}),
    ("syscall.seccomp.commands", {"delay": None}),
    ("syscall.seccomp.commands", {"limit": None}),
    ("syscall.seccomp.commands", {"seed": 1}),
    ("syscall.seccomp.commands", {"service": "web"}),
    ("machine.pause", {"for": "2s"}),
    ("machine.pause", {"for": "400ms"}),
    ("machine.pause", {"clock": "runs"}),
    ("machine.pause.runs", {"clock": "stops"}),
    ("machine.slow", {"speed": "41%"}),
    ("machine.slow", {"period": "21ms"}),
    ("machine.crash", {"mode": "panic"}),
    ("machine.crash", {"mode": "reboot"}),
    ("machine.crash.panic", {"mode": "reboot"}),
    ("machine.crash.panic", {"mode": "power"}),
    ("machine.crash.reboot", {"mode": "panic"}),
]


@pytest.mark.parametrize(("name", "other"), OTHER_PARAMETERS)
def test_every_parameter_is_compared_with_what_the_kernel_shows(name, other):
    compares(name, other)


def test_a_limit_that_was_there_before_is_not_the_faults():
    record = one("memory.limit")
    assert not record.fault.in_force(record.during, record.during)


def test_a_limit_that_was_put_back_elsewhere_is_not_clean():
    record = one("cpu.limit")
    assert record.undone is not None
    assert not record.fault.clean(record.before, changed(record.undone, "cgroup", "max 100000", "max 50000"))


def test_the_kernels_victims_are_noted():
    record = one("memory.limit")
    notes = record.fault.notes(record.before, record.during, record.after)
    assert any("oom_memcg=/services/victim" in note for note in notes)


def test_a_kill_counts_before_the_first_reading_after_the_act():
    """Setting the limit can itself kill: `during` already has the counts, and they are still the fault's."""
    record = one("memory.limit")
    assert record.fault.acted(record.after, record.after) == record.acted > 0


def test_a_probe_that_was_refused_before_is_not_the_faults():
    record = one("disk.fill")
    full = Reading(outputs=record.during.outputs)
    assert not record.fault.in_force(full, record.during)


def test_a_filler_that_did_not_stop_the_probe_is_not_in_force():
    record = one("disk.fill")
    assert not record.fault.in_force(record.before, changed(record.during, "room", '"refused": 3', '"refused": 2'))


def test_who_was_refused_room_is_noted():
    record = one("disk.fill")
    assert any("head[" in note and "refused room 1 times" in note
               for note in record.fault.notes(record.before, record.during, record.after))  # fmt: skip


def test_who_does_not_heed_a_signal_is_named():
    record = one("process.kill.heedless")
    notes = record.fault.notes(record.before, record.during, record.after)
    assert record.acted == 0
    assert any("signal TERM was sent to process" in note and "still there" in note for note in notes)


def test_a_pid_that_somebody_else_has_now_is_another_process():
    record = one("process.kill")
    shown = json.loads(record.after.outputs["victims"].out)
    assert shown["alive"] == []
    shown["now"] = [{**shown["sent"][0], "start_time": 1}]
    after = Reading(outputs={"victims": Output(exit=0, out=json.dumps(shown))})
    assert record.fault.acted(record.during, after) == record.acted
    assert any("is there anew" in note for note in record.fault.notes(record.before, record.during, after))


def test_a_crash_needs_the_process_gone_and_a_new_boot():
    record = one("machine.crash")
    alive = changed(record.during, "vmm", '"process_gone": true', '"process_gone": false')
    assert not record.fault.in_force(record.before, alive)
    assert record.fault.acted(alive, alive) == 0
    before_id = record.after.text("boot_id_before")
    same = changed(record.after, "boot_id_after", record.after.text("boot_id_after"), before_id)
    assert record.fault.acted(record.during, same) == 0


def test_a_time_daemon_is_noted():
    record = one("clock.jump.put-back")
    notes = record.fault.notes(record.before, record.during, record.after)
    assert any(note.startswith("undone by date[") and "not by 7200.000 s" in note for note in notes)
