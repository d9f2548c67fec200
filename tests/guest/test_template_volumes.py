"""Data volumes of a template: made once, there after a restore and after a crash with a cold boot."""

import asyncio

import pytest

from stormcell.machine.machine import Machine
from stormcell.spec.recipe import Recipe
from tests.guest.microvm import BOOT_S, output, restored, shell, spec_of
from tests.guest.test_template import built, home

__all__ = ["home"]
pytestmark = pytest.mark.guest

RECIPE = {
    "name": "volumes",
    "files": [{"path": "/var/lib/app/seed", "content": "seed\n", "owner": "nobody:nogroup"}],
    "volumes": [{"name": "data", "path": "/var/lib/app", "size": "64MiB", "owner": "nobody:nogroup"}],
    "setup": "set -e; grep -q seed /var/lib/app/seed; grep -q ' /var/lib/app ext4' /proc/mounts",
    "services": [
        {
            "name": "writer",
            "user": "nobody",
            "command": "exec 3>>/var/lib/app/log; while :; do echo x >&3; sleep 0.2; done",
            "ready": "test -s /var/lib/app/log",
        }
    ],
}
THERE = "stat -fc %T /var/lib/app; stat -c '%U:%G' /var/lib/app; cat /var/lib/app/seed; cat /sys/block/dm-0/dm/name"
SHOWN = "ext2/ext3\nnobody:nogroup\nseed\nstormcell-data\n"


def test_a_volume_is_there_after_a_restore_and_after_a_crash(home, tmp_path):
    template, _ = built(Recipe.model_validate(RECIPE), home)
    folder = tmp_path / "vm"

    async def story():
        async with restored(template, folder) as (machine, channel):
            assert await output(channel, THERE) == SHOWN
            busy = await shell(channel, "stormcell-guest volume remove data")
            assert not busy.ok
            assert b"/var/lib/app is in use by sh[" in busy.output
            slow = "stormcell-guest block act x /var/lib/app 100 keep 0 0 delay '@disk 20 @disk 20'"
            assert b"delay" in (await shell(channel, f"{slow}; stormcell-guest volume show")).output
            await output(
                channel, "echo durable > /var/lib/app/kept; sync -f /var/lib/app/kept; echo lost > /var/lib/app/new"
            )
            await machine.kill()
        again = tmp_path / "again"
        spec = spec_of(template, again, disk=folder / "disk.qcow2", memory=again / "memory")
        async with await Machine.start(spec, again) as machine, await machine.channel() as channel:
            await channel.ready(BOOT_S)
            assert await output(channel, f"{THERE}; cat /var/lib/app/kept") == SHOWN + "durable\n"
            assert "linear" in await output(channel, "stormcell-guest volume show")
            assert "running" in await output(channel, "stormcell-guest service status")

    asyncio.run(story())


def test_a_folder_is_moved_onto_a_volume_and_back(template, tmp_path):
    async def story():
        async with restored(template, tmp_path / "vm") as (_, channel):
            make = "stormcell-guest volume make v1 /srv/app 64MiB"
            await output(
                channel,
                "mkdir -p /srv/app/sub; echo old > /srv/app/sub/file; chown -R nobody /srv/app; chmod 750 /srv/app",
            )
            refused = await shell(channel, f"cd /srv/app; sleep 60 >/dev/null 2>&1 & {make}")
            assert not refused.ok
            assert b"/srv/app is in use by " in refused.output
            assert b"sleep[" in refused.output
            await output(channel, f"pkill sleep; while pgrep -x sleep >/dev/null; do :; done; {make}")
            state = "stat -c '%U %a' /srv/app; cat /srv/app/sub/file; ls -A /srv/app"
            assert await output(channel, state) == "nobody 750\nold\nsub\n"
            for wrong, why in (
                (make, b"there is a volume 'v1' already"),
                ("stormcell-guest volume make v2 /srv/app 64MiB", b"something is mounted on"),
                ("stormcell-guest volume make V! /srv/b 64MiB", b"is no name of a volume"),
                ("stormcell-guest volume make v2 /srv/b 1MiB", b"is too small"),
                ("stormcell-guest volume make v2 / 64MiB", b"is no folder that a volume"),
                ("stormcell-guest volume make v2 /srv/b 64", b"is too small"),
                ("stormcell-guest volume make v2 /srv/b 900GiB", b"No space left"),
                ("stormcell-guest volume remove v2", b"there is no volume 'v2'"),
            ):
                done = await shell(channel, wrong)
                assert (done.ok, why in done.output) == (False, True), done.output
            await output(channel, "echo new > /srv/app/sub/file; stormcell-guest volume remove v1 back")
            assert await output(
                channel, f"{state}; ls /var/lib/stormcell/volumes; ls /sys/block | grep dm- || true"
            ) == ("nobody 750\nnew\nsub\n")
            await output(
                channel, f"{make} && stormcell-guest volume mend v1 && stormcell-guest volume remove v1; {state}"
            )

    asyncio.run(story())
