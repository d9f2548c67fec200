import asyncio

from stormcell.machine.events import KEPT, EventLog, end_reason


def test_reasons_of_an_end():
    assert end_reason({"event": "SHUTDOWN", "data": {"guest": True, "reason": "guest-reset"}}) == "guest-reset"
    assert end_reason({"event": "GUEST_PANICKED", "data": {"action": "pause"}}) == "guest-panic"
    assert end_reason({"event": "STOP"}) is None


def test_an_expected_event_wakes_its_waiter_once():
    async def story():
        log = EventLog()
        future = log.expect(lambda event: event["event"] == "B")
        log.add({"event": "A"})
        assert not future.done()
        log.add({"event": "B", "n": 1})
        log.add({"event": "B", "n": 2})
        assert (await future)["n"] == 1

    asyncio.run(story())


def test_a_guest_that_causes_events_without_end_fills_nothing():
    log = EventLog()
    for number in range(KEPT * 3):
        log.add({"event": "NIC_RX_FILTER_CHANGED", "n": number})
    assert len(log.all()) == KEPT
    assert log.all()[-1]["n"] == KEPT * 3 - 1
