"""Recordings of `cpu.*`: the fault, what goes on around it, and what its receipt must say."""

from pathlib import Path
from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE, SPINNER
from tests.guest.faults.resource_loads import GROUP, joined, named, named_spinner

TWO_CPUS = str(Path(__file__).parents[1] / "two_cpus.yaml")

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "cpu.limit": (
        {"kind": "cpu.limit", "service": "victim", "percent": "20%"},
        {"loads": [SPINNER], "ready": joined(), "under": ["sleep 2"]}, ACTED),
    "cpu.limit.idle": ({"kind": "cpu.limit", "service": "victim", "percent": "20%"}, {"under": ["sleep 0.1"]}, IDLE),
    "cpu.limit.name": (
        {"kind": "cpu.limit", "name": "spinner", "percent": "30%", "of": "cpu"},
        {"loads": [named_spinner("spinner")], "under": ["sleep 1"]}, ACTED),
    "cpu.limit.quota": (
        {"kind": "cpu.limit", "service": "victim", "percent": "50%"},
        {"setup": [f"mkdir -p {GROUP}; echo '40000 100000' > {GROUP}/cpu.max"],
         "loads": [SPINNER], "under": ["sleep 1.5"]}, ACTED),
    "cpu.limit.lifted": (
        {"kind": "cpu.limit", "service": "victim", "percent": "20%", "period": "50ms"},
        {"setup": [f"echo max > {GROUP}/cpu.max"],
         "loads": [SPINNER], "under": [f"sleep 0.5; echo max > {GROUP}/cpu.max"]}, (False, True, True)),
    "cpu.load": (
        {"kind": "cpu.load", "service": "victim", "percent": "50%"},
        {"setup": [f"mkdir -p {GROUP}; echo '40000 100000' > {GROUP}/cpu.max"], "under": ["sleep 2"]}, ACTED),
    "cpu.load.alone": (
        {"kind": "cpu.load", "percent": "30%", "workers": 2}, {"under": ["sleep 1.5"]}, ACTED),
    "cpu.load.killed": (
        {"kind": "cpu.load", "service": "victim", "percent": "10%", "of": "cpu"},
        {"setup": [f"mkdir -p {GROUP}; echo max > {GROUP}/cpu.max"],
         "under": [f"sleep 0.3; echo 1 > {GROUP}/stormcell-fault/cgroup.kill; sleep 0.2"]}, (False, True, True)),
    "cpu.steal": (
        {"kind": "cpu.steal", "service": "victim", "percent": "60%"},
        {"loads": [SPINNER], "ready": joined(), "under": ["sleep 1.5"]}, ACTED),
    "cpu.steal.name": (
        {"kind": "cpu.steal", "name": "spinner", "percent": "30%", "period": "50ms"},
        {"loads": [named_spinner("spinner")], "under": ["sleep 1"]}, ACTED),
    "cpu.steal.idle": (
        {"kind": "cpu.steal", "name": "idler", "percent": "20%"},
        {"loads": [named("idler", "import time; time.sleep(1000)")], "under": ["sleep 0.5"]}, IDLE),
    "cpu.slow": (
        {"kind": "cpu.slow", "service": "victim", "speed": "40%"},
        {"loads": [SPINNER], "ready": joined(), "under": ["sleep 1"]}, ACTED),
    "cpu.slow.idle": ({"kind": "cpu.slow", "service": "victim", "speed": "5%"}, {"under": ["sleep 0.1"]}, IDLE),
    "cpu.online": ({"kind": "cpu.online", "leave": 1}, {"under": ["nproc; sleep 0.1"]}, ACTED),
    "cpu.online.back": (
        {"kind": "cpu.online", "leave": 1}, {"under": ["echo 1 > /sys/devices/system/cpu/cpu1/online"]}, NOT_IN_FORCE),
    "cpu.online.service": (
        {"kind": "cpu.online", "service": "victim", "leave": 1}, {"loads": [SPINNER], "under": ["sleep 0.1"]}, ACTED),
    "cpu.online.empty": (
        {"kind": "cpu.online", "service": "victim", "leave": 1}, {"under": ["sleep 0.1"]}, IDLE),
}  # fmt: skip
RECIPES = dict.fromkeys([name for name in CASES if name.startswith("cpu.online")], TWO_CPUS)
