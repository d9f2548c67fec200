"""One edge-triggered epoll loop with timers: all that the agent and PID 1 wait with."""

from __future__ import annotations

import heapq
import select
import time
from collections import deque
from collections.abc import Callable

_LONGEST_WAIT = 3600.0
"""epoll_wait(2) takes milliseconds as an int."""


class Timer:
    """A call that is due; `cancel` makes it a no-op."""

    __slots__ = ("call", "due")

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Do not call. May be said twice, and after the call."""
        self.call = None

    def __lt__(self, other: Timer) -> bool:
        return self.due < other.due


class Loop:
    """Callbacks only: each must return soon and read or write until EAGAIN (edge-triggered).

    `failed` is told of an exception that a callback let out; the others are served all the same, since an edge that is
    missed does not come again.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[int], None]] = {}
        self._timers: list[Timer] = []
        self._soon: deque[Callable[[], None]] = deque()
        self.running = False

    def watch(self, fd: int, call: Callable[[int], None]) -> None:
        """`call(events)` at every edge of `fd`, the present state being the first."""
        self._watched[fd] = call
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)

    def unwatch(self, fd: int) -> None:
        """Must come before the descriptor is closed: its number is used again."""
        if self._watched.pop(fd, None):
            self._epoll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """`call()` once, on the monotonic clock."""
        timer = Timer(time.monotonic() + seconds, call)
        heapq.heappush(self._timers, timer)
        return timer

    def soon(self, call: Callable[[], None]) -> None:
        """`call()` in the next turn, after a look at the descriptors."""
        self._soon.append(call)

    def run(self) -> None:
        """Turn until `running` is set to False."""
        self.running = True
        while self.running:
            self.turn()

    def turn(self) -> None:
        """Wait once, then serve what is due."""
        for fd, events in self._epoll.poll(self._wait()):
            if call := self._watched.get(fd):
                self._try(call, events)
        now = time.monotonic()
        while self._timers and self._timers[0].due <= now:
            if due := heapq.heappop(self._timers).call:
                self._try(due)
        for _ in range(len(self._soon)):
            self._try(self._soon.popleft())

    def _try(self, call: Callable[..., None], *arguments: int) -> None:
        try:
            call(*arguments)
        except Exception as error:
            self._failed(error)

    def _wait(self) -> float:
        if self._soon:
            return 0
        while self._timers and self._timers[0].call is None:
            heapq.heappop(self._timers)
        return min(max(0.0, self._timers[0].due - time.monotonic()), _LONGEST_WAIT) if self._timers else -1
