import asyncio
import gc
import os
import signal
import threading
import warnings
from collections.abc import AsyncIterator

import pytest

from stormcell.sandbox.bridge import Bridge
from stormcell.spec.errors import SandboxError


def test_runs_a_coroutine_and_returns_or_raises_what_it_does():
    bridge = Bridge.current()

    async def give(value: int) -> int:
        await asyncio.sleep(0)
        return value

    async def fail() -> None:
        raise KeyError("x")

    assert bridge.run(give(5)) == 5
    with pytest.raises(KeyError):
        bridge.run(fail())


def test_there_is_one_loop_for_all_threads():
    loops = set()

    async def which() -> None:
        loops.add(asyncio.get_running_loop())

    def use():
        Bridge.current().run(which())

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loops) == 1


def test_a_blocking_call_inside_the_loop_is_an_error_and_no_deadlock():
    bridge = Bridge.current()

    async def inner() -> int:
        return 1

    async def outer() -> int:
        return bridge.run(inner())

    with pytest.raises(SandboxError, match="wait for itself"):
        bridge.run(outer())


def test_an_interrupt_cancels_the_work_and_waits_for_its_clean_up(monkeypatch):
    bridge = Bridge.current()
    cleaned = []
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(True)

    def interrupt():
        begun.wait()

        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        bridge.run(work())
    assert cleaned


def test_callbacks_run_in_the_callers_thread_in_order_and_slow_the_source():
    seen = []
    ahead = []

    async def source(relay):
        call = relay.wrap(lambda n: seen.append((n, threading.current_thread())))
        for n in range(50):
            await call(n)
            ahead.append(n - len(seen) + 1)
        return "done"

    assert Bridge.current().run_with_callbacks(source) == "done"
    assert [n for n, _ in seen] == list(range(50))
    assert {thread for _, thread in seen} == {threading.current_thread()}
    assert max(ahead) == 0


def test_what_a_callback_raises_reaches_the_caller_through_the_work():
    cleaned = []

    async def source(relay):
        def bad(_):
            raise ValueError("mine")

        try:
            await relay.wrap(bad)(1)
        finally:
            cleaned.append(True)

    with pytest.raises(ValueError, match="mine"):
        Bridge.current().run_with_callbacks(source)
    assert cleaned


def test_iterate_fetches_one_at_a_time_and_closes_what_is_left_early():
    made = []
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for n in range(5):
                made.append(n)
                yield n
        finally:
            closed.append(True)

    items = Bridge.current().iterate(numbers)
    assert next(items) == 0
    assert made == [0]
    assert list(items) == [1, 2, 3, 4]
    assert closed == [True]
    for item in Bridge.current().iterate(numbers):
        assert item == 0
        break
    gc.collect()
    assert closed == [True, True]


def test_a_forked_child_gets_a_loop_of_its_own():
    parent = Bridge.current()

    async def one() -> int:
        return 1

    assert parent.run(one()) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tested
        pid = os.fork()
    if pid == 0:
        ok = Bridge.current() is not parent and Bridge.current().run(one()) == 1
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
