"""When a sealed run cannot be repeated: what, where, which rule, and how to mend it; nothing was started."""

import asyncio
import json
import shutil

import pytest

from stormcell.engine.sealed.run import replay
from stormcell.spec.errors import SpecError
from stormcell.spec.home import Home
from tests.unit.report.recorded import DATA

DAMAGES = {
    "no folder": None,
    "sealed.json": "{",
    "recipe.json": "[]",
    "plan.json": "{}",
    "spec.json": "[1",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_folder_that_cannot_be_repeated_says_what_where_why_and_how(tmp_path, name):
    folder = tmp_path / "run"
    if name == "no folder":
        folder.mkdir()
    else:
        shutil.copytree(DATA / "sealed-loss", folder)
        (folder / name).write_text(DAMAGES[name])
    _refused(folder, "no folder of a sealed run" if name == "no folder" else name)


@pytest.mark.parametrize("name", ["sealed.json", "recipe.json", "plan.json", "spec.json"])
def test_a_file_that_is_missing_is_named(tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(DATA / "sealed-loss", folder)
    (folder / name).unlink()
    _refused(folder, name)


@pytest.mark.parametrize("drive", [{}, {"plan": {}, "seed": 1}, {"plan": 7, "seed": "x"}])
def test_a_drive_that_is_none(tmp_path, drive):
    folder = tmp_path / "run"
    shutil.copytree(DATA / "sealed-loss", folder)
    about = json.loads((folder / "sealed.json").read_text())
    (folder / "sealed.json").write_text(json.dumps({**about, "drive": drive}))
    _refused(folder, "sealed.json is damaged")


def _refused(folder, what):
    home = Home(folder.parent / "state", folder.parent / "cache")
    with pytest.raises(SpecError) as refused:
        asyncio.run(replay(folder, home=home))
    error = refused.value
    assert what in error.what, error
    assert str(folder) in error.where and error.rule and error.remedy, error
    assert not home.cache.exists() and not home.runs.exists()
