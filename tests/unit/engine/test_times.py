"""Times that contradict each other are refused with the field, the rule and a remedy; what fits is not."""

from pathlib import Path

import pytest

from stormcell.engine.load import load_file
from stormcell.spec.errors import SpecError

HEAD = """name: x
template: base
steady_state:
  - {name: web, http: {url: "http://127.0.0.1/", rate: 2/s, for: 10s, timeout: 2s}, expect: {success_rate: 1}}
"""
JUMP = "fault:\n  kind: clock.jump\n  by: 1h\n"


def load(folder: Path, text: str):
    path = folder / "x.yaml"
    path.write_text(HEAD + text)
    return load_file(path)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (JUMP + "  schedule: {at: 30s, lasts: 40s}\nttl: 1m\n", 8,
         ["fault.schedule: the schedule is over after", "and ttl is 1m", "watchdog undoes", "write ttl: 2m"]),
        (JUMP + "  schedule: {pulse: {on: 1s, off: 1s, times: 1000}}\n", 8, ["and deadline is 10m", "is unknown"]),
        (JUMP + "  schedule: {pulse: {on: 10ms, off: 10ms, times: 100}}\ndeadline: 30s\n", 8,
         ["51.99s (acts and undos counted), and deadline is 30s"]),
        (JUMP + "  schedule: {ramp: {parameter: by, through: [1h, 2h, 3h], each: 30s}}\nttl: 80s\n", 8, ["ttl is 80s"]),
        (JUMP + "  schedule: {flap: {on: [1s, 1m], off: 1s, times: 20}}\n", 8, ["and deadline is 10m"]),
        (JUMP + "  schedule: {at: 15m}\n", 8, ["deadline is 10m"]),
        (JUMP + "  schedule: {at: 20s}\n", 8, ["every probe under the fault has ended by 12s"]),
        (JUMP + "  schedule: {lasts: 2s}\nsettle: 5s\n", 8, ["before the first probe looks (settle: 5s)"]),
        (JUMP + "  schedule: {random: {within: 3s, lasts: 1s, times: 3}}\n", 8,
         ["3 times 1s do not fit into 'within: 3s'", "they need 4.5s"]),
        ("faults:\n  a: {kind: clock.jump, by: 1h, schedule: {lasts: 2m}}\nttl: 1m\n", 6,
         ["faults.a.schedule: the schedule of 'a'", "ttl is 1m"]),
        (JUMP + "hold: 2m\nttl: 1m\n", 8, ["hold: the fault is held for 2m, and ttl is 1m"]),
        (JUMP + "hold: 10m\n", 8, ["hold: the fault is held for 10m after 10s of measuring, and deadline is 10m"]),
        (JUMP + "settle: 50s\nttl: 1m\n", 8, ["settle: settling and measuring take 1m, and ttl is 1m"]),
        (JUMP + "deadline: 15s\n", 8, ["deadline: settling and measuring take 10s after 10s"]),
        (JUMP + "deadline: 0s\n", 8, ["deadline is more than 0s"]),
        (JUMP + "ttl: 0s\n", 8, ["ttl is more than 0s"]),
        (JUMP + "recovery: {within: 1s, every: 5s}\n", 8, ["recovery: recovery is looked for every 5s"]),
        (JUMP + "abort:\n  - {file: /x, when: '> 3', every: 1h}\n", 9, ["abort.0: it is looked at every 1h"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path, text, line, said):
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text)
    assert caught.value.where == f"{tmp_path}/x.yaml:{line}"
    for part in said:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        JUMP + "  schedule: {at: 5s, lasts: 10s}\nttl: 20s\n",
        JUMP + "  schedule: {pulse: {on: 1s, off: 1s, times: 5}}\nttl: 15s\nhold: 5s\n",
        JUMP + "  schedule: {random: {within: 30s, lasts: 2s, times: 3}}\n",
        JUMP + "deadline: 30s\n",
        JUMP + "recovery: {within: 200ms}\n",
    ],
)
def test_what_fits_is_not(tmp_path, text):
    load(tmp_path, text)
