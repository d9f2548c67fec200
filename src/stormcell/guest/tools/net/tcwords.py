"""The words of a tc command, and the units in which it writes numbers (tc(8), UNITS)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = re.compile(r"([0-9.]+)([a-z%]*)\Z", re.IGNORECASE)
_TIMES = {"": 1000, "us": 1000, "ms": 10**6, "s": 10**9}
_RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_WHOLE = (1 << 32) - 1


class Words:
    """Read from left to right. Raises ValueError for a word that is none of what is asked for."""

    def __init__(self, line: str) -> None:
        self._left = line.split()

    @property
    def more(self) -> bool:
        """Is there another word?"""
        return bool(self._left)

    @property
    def number_next(self) -> bool:
        """Does it begin with a digit?"""
        return self.more and self._left[0][0].isdigit()

    def take(self) -> str:
        """The next one."""
        if not self._left:
            raise ValueError("the command ends too early")
        return self._left.pop(0)

    def skip(self, word: str) -> bool:
        """Take the next one if it is `word`."""
        found = self._left[:1] == [word]
        if found:
            self._left.pop(0)
        return found

    def expect(self, word: str) -> None:
        """The next one is `word`."""
        if not self.skip(word):
            raise ValueError(f"'{word}' is missing before '{' '.join(self._left)}'")

    def whole(self) -> int:
        """A number of packets or bytes."""
        return int(self.take())

    def nanoseconds(self) -> int:
        """A time; without a unit in microseconds."""
        return self._measured(_TIMES)

    def bytes_per_second(self) -> int:
        """A rate in bits per second."""
        return self._measured(_RATES) // 8

    def share(self) -> int:
        """A percentage, as a part of 2^32 - 1."""
        number, unit = self._number()
        if unit != "%" or number > 100:
            raise ValueError(f"{number:g}{unit} is no percentage")
        return round(number / 100 * _WHOLE)

    def _measured(self, units: Mapping[str, int]) -> int:
        number, unit = self._number()
        if unit not in units:
            raise ValueError(f"'{unit}' is no unit here; there are {', '.join(filter(None, units))}")
        return round(number * units[unit])

    def _number(self) -> tuple[float, str]:
        word = self.take()
        match = _NUMBER.match(word)
        if match is None:
            raise ValueError(f"'{word}' is no number")
        return float(match[1]), match[2].lower()
