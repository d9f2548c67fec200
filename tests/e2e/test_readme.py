"""What the README tells a stranger to type."""

import json
import os
import re
import subprocess
import sys

import pytest

from stormcell.faults import CATALOGUE
from tests.e2e.stormcell_command import COMMAND, ROOT, stormcell

README = (ROOT / "README.md").read_text()
COMMANDS = [line[2:] for block in re.findall(r"```console\n(.*?)```", README, re.S) for line in block.splitlines()]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)


def write_experiments(folder):
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.S)
    assert blocks
    for block in blocks:
        name = re.match(r"# (\S+\.yaml)\n", block)
        assert name
        (folder / name[1]).write_text(block)


def test_the_commands_one_after_another(home, tmp_path):
    write_experiments(tmp_path)
    sandbox = ""
    assert len(COMMANDS) >= 10
    for line in COMMANDS:
        program, *words = [sandbox if word == "ID" else word.replace("ID:", f"{sandbox}:") for word in line.split()]
        if program == "pytest":
            continue  # test_the_python_examples runs the file
        assert program == "stormcell"
        words = [str(next((tmp_path / "sealed").iterdir())) if word == "FOLDER" else word for word in words]
        done = stormcell(*words, home=home, cwd=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        if words[:2] == ["sandbox", "create"]:
            sandbox = done.stdout.split()[0]
    left = [row["id"] for row in json.loads(stormcell("sandbox", "list", "--json", home=home).stdout)]
    assert len(left) >= 2, "the forks, which live until their ttl"
    assert stormcell("sandbox", "kill", *left, home=home).returncode == 0


@pytest.mark.parametrize("code", PYTHON)
def test_the_python_examples(home, tmp_path, code):
    write_experiments(tmp_path)
    name = re.match(r"# (test_\S+\.py)\n", code)
    (tmp_path / (name[1] if name else "example.py")).write_text(code)
    plugin = ["-m", "pytest", "-p", "stormcell.pytest_plugin", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *plugin, name[1]] if name else [sys.executable, "example.py"],
        cwd=tmp_path,
        env={**os.environ, "STORMCELL_HOME": str(home), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_is_in_the_readme():
    listed = re.findall(r"^  ([a-z]+) ", stormcell("--help").stdout.partition("Commands:")[2], re.M)
    assert len(listed) >= 8
    for name in listed:
        assert f"`{name}" in README


def test_every_fault_is_in_the_readme():
    missing = [kind for kind, fault in CATALOGUE.items() if f"`{kind}`" not in README and not fault.unavailable]
    assert missing == []


def test_the_make_targets_exist():
    targets = (ROOT / "Makefile").read_text()
    for name in re.findall(r"`?make ([a-z]+)", README):
        assert f"\n{name}:" in targets


def test_the_command_that_make_leaves_is_there():
    assert COMMAND.exists()
