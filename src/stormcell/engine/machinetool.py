"""The virtual machine as a program: the host carries out `machine VERB ...` and answers as a program would."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stormcell.machine.throttle import Throttle
from stormcell.sandbox.api import AsyncSandbox
from stormcell.spec.errors import MachineDied, OutcomeUnknown, StormcellError
from stormcell.spec.fault import GUEST

CLOCK_TRIES = 4
GOOD_S = 0.03
FIRST_PERIODS = 4
SIGNAL_S = 1.0

Verb = Callable[..., Awaitable[Any]]


class MachineTool:
    """One run's. It knows what it did, so that `settle` can end all of it."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox
        self._pause: dict[str, Any] = {}
        self._throttle: Throttle | None = None
        self._cut = False
        self._verbs: dict[str, Verb] = {
            "link": self._set_link,
            "pause": self._pause_for,
            "resume": self._resume,
            "pauses": self._pauses,
            "slow": self._slow,
            "full-speed": self._full_speed,
            "speed": self._speed,
            "clocks": self._clocks,
            "wall": self._wall,
            "set-wall": self._set_wall,
        }

    async def run(self, argv: Sequence[str], timeout_s: float = 30.0) -> dict[str, Any]:
        """`argv` without the program's name. An output as the guest's runner writes them; refusals are exit code 1.

        Raises MachineDied and OutcomeUnknown: the guest is lost then, and that is no answer.
        """
        verb = self._verbs.get(argv[0]) if argv else None
        if verb is None:
            return output(2, "", f"the machine knows {', '.join(self._verbs)}")
        try:
            async with asyncio.timeout(timeout_s):
                answer = await verb(*argv[1:])
        except TimeoutError:
            return output(None, "", f"'{argv[0]}' was not done within {timeout_s:g} s")
        except (MachineDied, OutcomeUnknown):
            raise
        except (StormcellError, ValueError, TypeError) as error:
            return output(1, "", str(error))
        return output(0, answer if isinstance(answer, str) else json.dumps(answer))

    async def settle(self) -> None:
        """End everything that was begun: the machine runs at full speed, with its cable plugged in."""
        await self._full_speed()
        await self._resume()
        if self._cut:
            await self._set_link("up")

    # -- the cable ------------------------------------------------------------------------------------------------

    async def _set_link(self, state: str) -> dict[str, str]:
        if state not in ("up", "down"):
            raise ValueError(f"a link is up or down, not '{state}'")
        await self._sandbox.machine.set_link(state == "up")
        self._cut = state == "down"
        return {"link": state}

    # -- standing still -------------------------------------------------------------------------------------------

    async def _pause_for(self, clock: str, seconds: str, after: str) -> dict[str, Any]:
        """Stop the world after a moment, for so long, and let it go on. `clock` is stops or runs."""
        if clock not in ("stops", "runs"):
            raise ValueError(f"the guest's clock stops or runs, not '{clock}'")
        await asyncio.sleep(float(after))
        machine, told = self._sandbox.machine, len(self._sandbox.machine_events())
        self._pause = {"clock": clock, "asked_s": float(seconds), "over": False}
        try:
            began = time.monotonic()
            if clock == "stops":
                await machine.pause()
                self._pause["shown"] = await machine.status()
            else:
                machine.freeze()
                self._pause["shown"] = "frozen" if await _until(machine.frozen, SIGNAL_S) else "not frozen"
            await asyncio.sleep(max(0.0, float(seconds) - (time.monotonic() - began)))
        finally:
            await self._go_on(clock)
            self._pause["seconds"] = round(time.monotonic() - began, 6)
        if clock == "stops":
            self._pause["after"] = await machine.status()
        else:
            self._pause["after"] = "running" if await _until(lambda: not machine.frozen(), SIGNAL_S) else "frozen"
        events = self._sandbox.machine_events()[told:]
        self._pause["events"] = [e for e in events if e.get("event") in ("STOP", "RESUME")]
        self._pause["over"] = True
        return self._pause

    async def _go_on(self, clock: str) -> None:
        if clock == "stops":
            await asyncio.shield(self._sandbox.machine.cont())
        else:
            self._sandbox.machine.thaw()

    async def _resume(self) -> dict[str, str]:
        """Harmless when it runs."""
        if self._pause and not self._pause["over"]:
            self._sandbox.machine.thaw()
            await self._sandbox.machine.cont()
        self._pause = {}
        return {}

    async def _pauses(self) -> dict[str, Any]:
        return self._pause

    # -- slowness -------------------------------------------------------------------------------------------------

    async def _slow(self, share: str, period: str) -> dict[str, Any]:
        """Run for so much (0 to 1) of each period (seconds)."""
        if self._throttle is not None:
            raise ValueError("the machine is slowed down already")
        self._throttle = Throttle(self._sandbox.machine, float(share), float(period))
        self._throttle.start()
        await asyncio.sleep(FIRST_PERIODS * float(period))
        return self._throttle.report()

    async def _full_speed(self) -> dict[str, Any]:
        """Harmless when it has it."""
        throttle, self._throttle = self._throttle, None
        if throttle is None:
            return {}
        await asyncio.shield(asyncio.to_thread(throttle.end))
        return throttle.report()

    async def _speed(self) -> dict[str, Any]:
        return self._throttle.report() if self._throttle is not None else {}

    # -- clocks ---------------------------------------------------------------------------------------------------

    async def _clocks(self) -> dict[str, Any]:
        """The guest's clocks and the host's at the same moment, all in ns, known to within `uncertain`."""
        best: dict[str, Any] = {}
        for _ in range(CLOCK_TRIES):
            first, wall = time.monotonic_ns(), time.time_ns()
            done = await self._sandbox.exec([GUEST, "clock", "all"], timeout=20)
            last = time.monotonic_ns()
            guest = json.loads(done.stdout)
            if not best or (last - first) // 2 < best["uncertain"]:
                middle = (last - first) // 2
                best = {"guest": guest, "host_monotonic": first + middle, "host_wall": wall + middle,
                        "uncertain": middle}  # fmt: skip
            if best["uncertain"] < GOOD_S * 1e9:
                break
        return best

    async def _wall(self) -> str:
        """The guest's wall clock minus the host's, in ns."""
        clocks = await self._clocks()
        return f"{clocks['guest']['realtime'] - clocks['host_wall']}\n"

    async def _set_wall(self, difference: str) -> dict[str, int]:
        """Put the guest's wall clock so that it differs from the host's by so much again."""
        by = int(difference) - int(await self._wall())
        done = await self._sandbox.exec([GUEST, "clock", "jump", str(by)], timeout=20)
        if done.exit_code != 0:
            raise ValueError(done.stderr.decode(errors="replace").strip())
        return {"by": by}


def output(exit_: int | None, out: str, err: str = "") -> dict[str, Any]:
    """As the runner in the guest writes it."""
    return {"exit": exit_, "out": out, "err": err, "truncated": False}


async def _until(met: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not met():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.001)
    return True
