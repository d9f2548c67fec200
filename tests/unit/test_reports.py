"""Every public report of fault injection gone wrong that this project answers for has its test in a real machine."""

import re
from pathlib import Path

import pytest

REPORTS = Path(__file__).parents[1] / "guest" / "reports"
NUMBERS = [
    1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 21, 22, 23, 24, 28, 30, 31, 32, 33, 35, 38, 39, 40, 41, 42,
    44, 46, 48, 49, 51, 52, 54, 55, 57, 58, 60, 61, 64, 65,
]  # fmt: skip
TESTS = "\n".join(path.read_text() for path in sorted(REPORTS.glob("test_*.py")))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_report_is_a_test_in_the_naive_way_and_in_ours(number):
    heads = re.findall(rf"((?:^@.*\n|^    .*\n|^\)\n)*)^def test_{number:02d}_\w+\(([^)]*)\)", TESTS, re.M)
    assert heads, f"report {number} has no test"
    assert any("way" in arguments for _, arguments in heads), f"report {number} is not tried in both ways"


def test_there_are_forty_five():
    assert len(NUMBERS) == len(set(NUMBERS)) == 45
