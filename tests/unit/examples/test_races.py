"""The planted defects: what their programs do when nothing disturbs them, and that the experiments can be explored."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stormcell.engine.explore.run import space_of
from stormcell.engine.load import check_fault, load_file
from stormcell.engine.sealed.refusals import refusals
from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError
from stormcell.spec.recipe import Recipe

RACES = Path(__file__).parents[3] / "examples" / "races"
EXPERIMENTS = sorted(path for path in RACES.glob("*.yaml") if path.name != "template.yaml")
PATIENCE_S = 60.0


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_is_valid_can_be_sealed_and_varies_something(path):
    loaded = load_file(path)
    assert loaded.experiment.name == path.stem
    assert loaded.experiment.question.endswith("?")
    assert not list(refusals(loaded))
    space = space_of(loaded)
    assert space.dimensions or space.window or space.noise_gap


def test_what_only_explore_disturbs_is_refused_by_a_plain_run():
    loaded = {path.stem: load_file(path) for path in EXPERIMENTS}
    with pytest.raises(SpecError, match="it has no fault") as refused:
        check_fault(loaded["lost-update"])
    assert "stormcell explore" in refused.value.remedy
    check_fault(loaded["lock-survives"])


def test_every_program_is_in_the_recipe_and_run_by_an_experiment():
    recipe = yamlfile.validated(yamlfile.load(RACES / "template.yaml"), Recipe.model_validate, "recipe")
    programs = {path.name for path in RACES.glob("*.py")}
    assert {item.source for item in recipe.files} == programs
    run = {name for path in EXPERIMENTS for name in re.findall(r"/opt/races/(\w+\.py)", path.read_text())}
    assert run == programs


@pytest.fixture
def moved(tmp_path):
    """Starts a program with its files below a folder of the test's own; ended with all its children."""
    started = []

    def start(name, *arguments, **replaced):
        text = (RACES / name).read_text().replace("/var/tmp", str(tmp_path))
        for old, new in replaced.items():
            text = re.sub(rf"^{old} = .*$", f"{old} = {new}", text, flags=re.M)
        (tmp_path / name).write_text(text)
        command = [sys.executable, str(tmp_path / name), *arguments]
        started.append(subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        (process.stdout or pytest.fail("no output")).close()


def said(process):
    return process.stdout.read()


def until(seen):
    deadline = time.monotonic() + PATIENCE_S
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_one_seller_alone_loses_nothing_and_an_old_count_shows(moved, tmp_path):
    sellers = moved("seats.py", "1", BETWEEN_S="0.001")
    count, book = tmp_path / "seats" / "sold", tmp_path / "seats" / "book.0"
    until(lambda: book.exists() and int(book.read_text() or "0") > 20)
    os.killpg(sellers.pid, signal.SIGTERM)
    assert sellers.wait(PATIENCE_S) == 0
    probe = load_file(RACES / "lost-update.yaml").experiment.steady_state[0].command
    command = ["sh", "-c", str(probe and probe.run).replace("/var/tmp", str(tmp_path))]
    assert subprocess.check_output(command, text=True) == "0\n"
    count.write_text(f"{int(count.read_text()) - 1}\n")
    assert subprocess.check_output(command, text=True) == "1\n"


def test_the_desk_answers_who_asks(moved, tmp_path):
    place = f'("127.0.0.1", {20_000 + os.getpid() % 10_000})'
    moved("desk.py", "serve", PLACE=place, WORK_S="0.001")
    moved("desk.py", "ask", "3", PLACE=place, BETWEEN_S="0.01", AGAIN_S="0.05")
    until(lambda: (tmp_path / "desk").exists() and (tmp_path / "desk").read_text().count(" 1\n") > 10)
    assert float(said(moved("desk.py", "look", "0.0"))) == 100.0, "nobody asked"


def test_parcels_come_until_somebody_is_gone_with_the_key(moved, tmp_path):
    yard = tmp_path / "yard"
    moved("courier.py", "ride", "2", BETWEEN_S="0.01", ROAD_S="0.001")
    parcels = yard / "parcels"
    until(lambda: parcels.exists() and len(parcels.read_text().splitlines()) > 20)
    until(lambda: took(yard / "van.key"))
    before = parcels.read_text()
    time.sleep(0.5)
    assert parcels.read_text() == before
    assert int(said(moved("courier.py", "look", "600"))) == len(before.splitlines())


def took(key):
    try:
        key.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
