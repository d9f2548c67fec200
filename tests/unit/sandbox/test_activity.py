import asyncio
from pathlib import Path

import pytest

from stormcell.sandbox import lease
from stormcell.sandbox.activity import Activity
from stormcell.spec.errors import SandboxNotFound


def deadline(folder: Path) -> int:
    found = lease.read(folder)
    assert found is not None
    return found.deadline_ns


def test_work_in_flight_renews_at_a_quarter_of_the_ttl(tmp_path):
    async def main() -> None:
        lease.begin(tmp_path, 1.0)
        activity = Activity(tmp_path, 1.0)
        async with activity.work(), activity.work():
            seen = {deadline(tmp_path)}
            for _ in range(60):
                await asyncio.sleep(0.05)
                seen.add(deadline(tmp_path))
        assert len(seen) >= 4
        last = deadline(tmp_path)
        await asyncio.sleep(0.6)
        assert deadline(tmp_path) == last

    asyncio.run(main())


def test_work_on_what_is_gone_does_not_start(tmp_path):
    async def main() -> None:
        lease.begin(tmp_path, 1.0)
        lease.claim(tmp_path, "killed", only_overdue=False)
        started = False
        with pytest.raises(SandboxNotFound, match="killed"):
            async with Activity(tmp_path, 1.0).work():
                started = True
        assert not started

    asyncio.run(main())


def test_a_kill_during_the_work_does_not_hide_its_result(tmp_path):
    async def main() -> None:
        lease.begin(tmp_path, 1.0)
        async with Activity(tmp_path, 1.0).work():
            lease.claim(tmp_path, "killed", only_overdue=False)

    asyncio.run(main())
