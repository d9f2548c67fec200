"""One event loop in a background thread, for those who call without `await`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from stormcell.spec.errors import SandboxError

T = TypeVar("T")

CLEANUP_SECONDS = 30.0
LOOK_SECONDS = 0.5
"""A signal that comes just before a thread blocks on a lock does not wake it: Python's handler waits for the thread,
and the thread for the lock. So no wait is for ever."""


class Bridge:
    """Runs coroutines to their end from any ordinary thread; its loop lives as long as the process."""

    _current: Bridge | None = None
    _guard = threading.Lock()

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="stormcell", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @classmethod
    def current(cls) -> Bridge:
        """The one of this process; after a fork the child gets its own, for threads do not cross a fork."""
        with cls._guard:
            if cls._current is None or cls._current.pid != os.getpid():
                cls._current = cls()
            return cls._current

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Ctrl-C cancels it, waits until it has cleaned up, and is raised here."""
        if threading.current_thread() is self._thread:
            work.close()
            raise SandboxError(
                "a blocking call inside the event loop would wait for itself",
                remedy="use AsyncSandbox in coroutines and in callbacks of AsyncSandbox",
            )
        return self._finish(work, lambda: None)

    def _finish(self, work: Coroutine[Any, Any, T], meanwhile: Callable[[], None]) -> T:
        """Start `work`, do `meanwhile` here, return the result; on any exception here end the work first."""
        result: Future[T] = Future()
        over = threading.Event()
        result.add_done_callback(lambda _: over.set())
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(self.loop.create_task(work))
            tasks[0].add_done_callback(lambda task: _hand_over(task, result))

        def cancel() -> None:
            # an interrupt may come before `start` was even queued
            if tasks:
                tasks[0].cancel()
            else:
                work.close()
                result.cancel()

        try:
            self.loop.call_soon_threadsafe(start)
            meanwhile()
            while not over.wait(LOOK_SECONDS):
                pass
            return result.result()
        except BaseException:
            if not over.is_set():
                self.loop.call_soon_threadsafe(cancel)
                over.wait(CLEANUP_SECONDS)
            raise

    def run_with_callbacks(self, work: Callable[[Relay], Coroutine[Any, Any, T]]) -> T:
        """Like `run`, but what `work` hands to the relay is called in this thread, one at a time and in order."""
        relay = Relay()

        async def wrapped() -> T:
            try:
                return await work(relay)
            finally:
                relay.end()

        return self._finish(wrapped(), relay.serve)

    def iterate(self, begin: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """The items of the async iterator that `begin` makes in the loop, fetched one by one as they are asked for.

        When the iteration is left early, the async side is closed.
        """
        source: AsyncIterator[T] | None = None
        nothing = object()

        async def one() -> T | object:
            nonlocal source
            if source is None:
                source = begin()
            try:
                return await anext(source)
            except StopAsyncIteration:
                return nothing

        async def close() -> None:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

        try:
            while (item := self.run(one())) is not nothing:
                yield item  # type: ignore[misc]  # `nothing` is the only other thing it can be
        finally:
            self.run(close())


def _hand_over(task: asyncio.Task[T], result: Future[T]) -> None:
    if task.cancelled():
        result.cancel()
    elif error := task.exception():
        result.set_exception(error)
    else:
        result.set_result(task.result())


class Relay:
    """Carries calls from the loop's thread to the caller's. The loop waits for each, so a slow callback slows its
    source and nothing piles up."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], object], Future[object]] | None] = queue.SimpleQueue()

    def wrap(self, callback: Callable[[T], object]) -> Callable[[T], Awaitable[object]]:
        """`callback` as a coroutine function for the loop."""

        async def call(argument: T) -> object:
            future: Future[object] = Future()
            self._calls.put((lambda: callback(argument), future))
            return await asyncio.wrap_future(future)

        return call

    def end(self) -> None:
        """No more calls."""
        self._calls.put(None)

    def serve(self) -> None:
        """Make the calls until the end. What a callback raises goes back to the loop, and from there to the caller."""
        while True:
            try:
                item = self._calls.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            if item is None:
                return
            call, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:
                with contextlib.suppress(Exception):
                    future.set_exception(error)
                raise
