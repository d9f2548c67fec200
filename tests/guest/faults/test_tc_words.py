"""`stormcell-guest tc` means and shows what tc itself means and shows, discipline by discipline."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stormcell.template.model import Template
from tests.guest.faults.fault_trial import Bench

DISCIPLINES = (
    "netem delay 50000us 10000us 25% distribution normal limit 7500",
    "netem delay 200000us 0us 0% limit 15000",
    "netem loss 40% 10% limit 1000",
    "netem loss gemodel 20% 40% 90% 1% limit 1000",
    "netem loss state 20% 30% 10% 20% 3% limit 1000",
    "netem delay 20000us 5000us 10% loss 20% 5% duplicate 20% corrupt 1% reorder 20% gap 2 rate 10000000bit limit 2000",
    "netem delay 20000us 0us 0% reorder 60% 5% gap 2 limit 1500",
    "netem rate 256000bit 10 48 5 limit 50",
    "netem slot 20000us 30000us packets 3 bytes 10240 limit 1000",
    "tbf rate 1000000bit burst 69632 latency 1000000us",
    "tbf rate 256000bit burst 16384 limit 20000",
)
COUNTED = ("bytes", "packets", "backlog", "qlen", "drops", "overlimits", "requeues")
SCRIPT = """
ip link show t0 >/dev/null 2>&1 || { ip link add t0 type ifb; ip link set t0 up; }
for set in tc "stormcell-guest tc"; do
  tc qdisc del dev t0 root 2>/dev/null
  $set qdisc add dev t0 root handle 5c01: WORDS
  tc -s -j qdisc show dev t0; echo
  stormcell-guest tc -s -j qdisc show dev t0
done
"""


@pytest.fixture(scope="module")
def bench(template: Template) -> Iterator[Bench]:
    found = Bench(template)
    yield found
    found.close()


def still(line: str) -> dict[str, Any]:
    (item,) = json.loads(line)
    options = {key: value for key, value in item["options"].items() if key != "ecn"}
    return {**{key: value for key, value in item.items() if key not in (*COUNTED, "dev")}, "options": options}


@pytest.mark.parametrize("words", DISCIPLINES)
def test_a_discipline(bench: Bench, words: str) -> None:
    lines = bench.run(SCRIPT.replace("WORDS", words)).splitlines()
    by_tc, by_tc_seen, by_us, by_us_seen = (still(line) for line in lines if line)
    assert by_tc["kind"] == words.split()[0]
    assert by_tc == by_tc_seen == by_us == by_us_seen


def test_what_cannot_be_done_is_told(bench: Bench) -> None:
    for line, said in (
        ("qdisc add dev t9 root handle 1: netem delay 1ms", "no network device 't9'"),
        ("qdisc add dev lo root handle 1: netem delay 1%", "no unit"),
        ("qdisc add dev lo root handle 1: netem delay", "ends too early"),
        ("qdisc add dev lo root handle 1: sfq", "no kind of qdisc"),
        ("qdisc change dev lo root handle 1: netem delay 1ms", "qdisc change dev lo"),
    ):
        assert said in bench.run(f"stormcell-guest tc {line} 2>&1; test $? = 1")
    assert "noqueue" in bench.run("tc qdisc show dev lo")
