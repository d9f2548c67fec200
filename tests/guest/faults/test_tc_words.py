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
MADE_BY = ("tc", "stormcell-guest tc")


@pytest.fixture(scope="module")
def bench(template: Template) -> Iterator[Bench]:
    found = Bench(template)
    yield found
    found.close()


@pytest.fixture(scope="module")
def seen(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """Each discipline on a device of its own, made by tc and by us: what each of both shows, by device."""
    for maker, by in enumerate(MADE_BY):
        names = [f"t{maker}{number}" for number in range(len(DISCIPLINES))]
        bench.run("; ".join(f"ip link add {name} type ifb; ip link set {name} up" for name in names))
        lines = [f"qdisc add dev {n} root handle 5c01: {words}" for n, words in zip(names, DISCIPLINES, strict=True)]
        bench.run(f"{by} -batch - <<'END'\n" + "\n".join(lines) + "\nEND")
    found: dict[str, list[dict[str, Any]]] = {}
    for by in MADE_BY:
        for item in json.loads(bench.run(f"{by} -s -j qdisc show")):
            found.setdefault(item["dev"], []).append(item)
    return found


def still(item: dict[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in item["options"].items() if key != "ecn"}
    return {**{key: value for key, value in item.items() if key not in (*COUNTED, "dev")}, "options": options}


@pytest.mark.parametrize("words", DISCIPLINES)
def test_a_discipline(seen: dict[str, list[dict[str, Any]]], words: str) -> None:
    number = DISCIPLINES.index(words)
    shown = [still(item) for maker in range(2) for item in seen[f"t{maker}{number}"]]
    assert len(shown) == 4
    assert shown[0]["kind"] == words.split()[0]
    assert all(item == shown[0] for item in shown)


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
