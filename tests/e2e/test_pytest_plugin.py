"""The plug-in as a project's own tests use it: with its entry point, in real machines, with xdist, and when killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stormcell.engine.api import judge_folder
from stormcell.sandbox.templates import resolve
from tests.e2e.stormcell_command import ROOT

pytest_plugins = ["pytester"]

LADDER = """
    import pytest

    pytestmark = pytest.mark.stormcell(ttl="4m", setup=["echo marked >/run/steps"])

    @pytest.fixture(scope="module")
    def warmed(warmed):
        warmed.exec("cat /proc/sys/kernel/random/uuid >>/run/steps", check=True)
        return warmed

    def test_sandbox(sandbox, template, stormcell_template):
        assert template is stormcell_template
        assert template.name == "base"
        assert sandbox.exec("cat /run/steps").text == "marked\\n"

    @pytest.mark.parametrize("turn", [1, 2])
    def test_forked(forked, warmed, turn):
        was = warmed.exec("cat /run/steps").text
        assert was.count("\\n") == 2
        assert forked.exec("cat /run/steps; echo mine >/run/steps").text == was
        assert forked.id != warmed.id
"""
DELAY = '"net.delay", device="lo", delay="60ms"'
OUTCOMES = f"""
    import pytest
    from stormcell import chaos

    LATE = {{"kind": "net.delay", "device": "lo", "delay": "60ms"}}
    PING = "ping -c 2 -i 0.2 -W 2 127.0.0.1"

    def test_survives(forked):
        with chaos(forked, {DELAY}):
            forked.exec(PING, check=True)

    def test_lines_fail(forked):
        forked.exec("logger -s hello; echo said on the console >/dev/console")
        with chaos(forked, {DELAY}):
            forked.exec(PING, check=True)
            assert "ok" == "late"

    @pytest.mark.stormcell(fault=LATE)
    def test_marked_and_void(forked):
        forked.exec("true", check=True)

    @pytest.mark.stormcell(fault=LATE, void="skip")
    def test_void_is_skipped(forked):
        forked.exec("true", check=True)

    @pytest.mark.stormcell(experiment="slow.yaml", verdict="failed")
    def test_an_experiment_that_was_to_fail(outcome):
        raise AssertionError("the verdict is looked at first")
"""
SLOW = """
name: slow
steady_state:
  - {name: echo, command: {run: "ping -c 2 -i 0.2 -W 2 127.0.0.1"}, expect: {exit_code: 0}}
fault: {kind: net.delay, device: lo, delay: 50ms}
recovery: {within: 10s}
"""


@pytest.fixture
def project(pytester, home, monkeypatch):
    """A folder of tests where the plug-in is installed: found by its entry point, as pip leaves it."""
    info = pytester.mkdir("site") / "stormcell_here-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stormcell-here\nVersion: 0\n")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{lines}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(info.parent), str(ROOT / "src")]))
    monkeypatch.setenv("STORMCELL_HOME", str(home))
    return pytester


def left(home: Path) -> list[str]:
    folders = (home / "state" / "sandboxes", home / "state" / "layers")
    return [str(path) for folder in folders if folder.is_dir() for path in folder.iterdir()]


def promised(home: Path) -> list[object]:
    return list(json.loads((home / "state" / "promises.json").read_text() or "[]"))


def test_the_ladder_on_two_workers_with_machines_ready_ahead(project, home):
    project.makepyfile(test_one=LADDER, test_two=LADDER)
    done = project.runpytest_subprocess("-n", "2", "--dist", "loadfile", "-q", "--stormcell-ready", "1")
    done.assert_outcomes(passed=6)
    assert left(home) == []
    assert promised(home) == []


def test_what_a_failure_says(project, home):
    (project.path / "slow.yaml").write_text(SLOW)
    project.makepyfile(test_shop=OUTCOMES)
    done = project.runpytest_subprocess("-rs", "--junitxml=report.xml")
    done.assert_outcomes(passed=1, failed=3, skipped=1)
    said = done.stdout.str()
    folders = {path.name: path for path in (home / "state" / "runs").iterdir()}
    assert len(folders) == 5
    done.stdout.fnmatch_lines(
        [
            "*test_lines_fail*",
            '>*assert "ok" == "late"',
            "E*stormcell: under net.delay (4 packets*",
            "*stormcell run net.delay: failed*",
            f"folder: {home}/state/runs/*",
            "failed: probe 'lines' under the fault*",
            "receipt of net.delay {device: lo*delay: 60ms*",
            "  in force: yes; acted: 4 packets*; nothing left: yes",
            "  undone by: *",
            "*stormcell forked sc-*",
            "console, the last 15 lines:",
            "*said on the console*",
            "*test_marked_and_void*",
            "net.delay is void: net.delay touched nothing*",
            "*stormcell run net.delay: void*",
            "*test_an_experiment_that_was_to_fail*",
            "slow is survived and not failed: *",
            "*stormcell run slow: survived*",
            "SKIPPED*net.delay is void*",
        ]
    )
    assert "chaos.py" not in said.replace("test_chaos.py", "")
    assert "the verdict is looked at first" not in said
    assert "traceback" not in said
    properties = [item.attrib for item in ET.parse(project.path / "report.xml").iter("property")]
    assert sorted(item["name"] for item in properties) == [
        "stormcell failed", "stormcell survived", "stormcell survived", "stormcell void", "stormcell void",
    ]  # fmt: skip
    for item in properties:
        assert judge_folder(Path(item["value"])).verdict == item["name"].split()[1]
    assert left(home) == []


def test_a_sealed_experiment_of_a_mark_and_what_its_failure_says(project, home):
    (project.path / "slow.yaml").write_text(SLOW)
    project.makepyfile(
        """
        import pytest

        @pytest.mark.stormcell(experiment="slow.yaml", sealed=True, seed=7, verdict="failed")
        def test_sealed(outcome):
            raise AssertionError("the verdict is looked at first")
        """
    )
    done = project.runpytest_subprocess("--junitxml=report.xml")
    done.assert_outcomes(failed=1)
    (folder,) = (home / "state" / "runs").iterdir()
    done.stdout.fnmatch_lines(
        [
            "slow is survived and not failed: *",
            "*stormcell run slow: survived*",
            f"folder: {folder}",
            f"sealed: seed 7; *s[*] of guest time in * to 1; repeat it: stormcell run --replay {folder}",
            "receipt of net.delay {device: lo*delay: 50ms*",
            "[*] guest time: *",
        ]
    )
    assert "the verdict is looked at first" not in done.stdout.str()
    assert json.loads((folder / "sealed.json").read_text())["seed"] == 7
    (written,) = [item.attrib for item in ET.parse(project.path / "report.xml").iter("property")]
    assert written == {"name": "stormcell survived", "value": str(folder)}


@pytest.fixture(scope="module")
def shop() -> Path:
    """The example's folder, its template built."""
    folder = ROOT / "examples" / "orders"
    asyncio.run(resolve(str(folder / "template.yaml"), None))
    return folder


def test_the_example(project, home, shop):
    done = project.runpytest_subprocess("-c", "/dev/null", "-k", "sells", str(shop / "test_shop.py"))
    done.assert_outcomes(passed=1, deselected=3)
    assert left(home) == []


def test_a_failure_shows_the_services_logs(project, home, shop):
    project.makeini(f"[pytest]\nstormcell_template = {shop / 'template.yaml'}\n")
    project.makepyfile(
        """
        def test_it(sandbox):
            sandbox.exec("echo the disk is on fire >>/run/stormcell/log/redis.log")
            raise AssertionError
        """
    )
    done = project.runpytest_subprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*stormcell sandbox sc-*",
            "services, the last 15 lines of each:",
            "  ==> /run/stormcell/log/postgresql.log <==",
            "*redis.log*",
            "  the disk is on fire",
        ]
    )


def test_a_worker_that_is_killed_leaves_no_machine(project, home):
    project.makepyfile(
        """
        import os, signal

        def test_dies(sandbox):
            os.kill(os.getpid(), signal.SIGKILL)

        def test_goes_on(sandbox):
            assert sandbox.exec("true").ok
        """
    )
    done = project.runpytest_subprocess("-n", "1", "-q")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*crashed while running*test_dies*"])
    done.stdout.fnmatch_lines(["stormcell: a worker died; sc-*process * gone*"])
    assert left(home) == []


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_ctrl_c_leaves_no_machine_and_no_fault(project, home, workers):
    project.makepyfile(
        f"""
        import pathlib, time
        from stormcell import chaos

        def test_long(forked):
            with chaos(forked, {DELAY}):
                pathlib.Path("reached").touch()
                time.sleep(120)
        """
    )
    command = [sys.executable, "-m", "pytest", "-q", *workers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as run:
        deadline = time.monotonic() + 120
        while not (project.path / "reached").exists():
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGINT)
        said = run.communicate(timeout=90)[0].decode()
    assert run.returncode == 2, said
    assert left(home) == []
    (folder,) = (home / "state" / "runs").iterdir()
    result = judge_folder(folder)
    assert (result.verdict, result.reasons[0].code) == ("unknown", "interrupted")
