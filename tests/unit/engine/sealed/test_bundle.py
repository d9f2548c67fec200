"""The few KB that a sealed run is repeated from: written, read, and damaged."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.engine.folder import RunFolder
from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.bundle import RECIPE, SEALED, Sealed
from stormcell.spec.errors import SpecError
from stormcell.spec.recipe import Recipe

INPUTS = {"qemu": {"version": "7.2", "sha256": "ab"}, "image": "cd"}


def sealed(**changes):
    fields = {"seed": 7, "template": "t" * 64, "snapshot": "s" * 64, "inputs": INPUTS, "packages": ("bash 5.2",)}
    return Sealed(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path):
    made = RunFolder.create(tmp_path / "runs", "x")
    yield made
    made.close()


def test_what_was_written_is_read(folder):
    bundle.write(folder, sealed(guest_seconds=12.5, host_seconds=2.5, evidence={"process_gone": True}))
    found = bundle.read(folder.path)
    assert found == sealed(guest_seconds=12.5, host_seconds=2.5, evidence={"process_gone": True})
    assert found.ratio == 5.0
    assert sealed().ratio == 0.0


def test_a_recipe_travels_with_its_files(folder, tmp_path):
    (tmp_path / "app.py").write_bytes(b"\x00\xffpayload")
    files = [{"path": "/opt/app.py", "source": str(tmp_path / "app.py")}]
    recipe = Recipe.model_validate({"name": "own", "packages": ["nginx-light"], "files": files})
    bundle.write_recipe(folder, recipe)
    (tmp_path / "app.py").unlink()
    found, contents = bundle.read_recipe(folder.path)
    assert contents == {"/opt/app.py": b"\x00\xffpayload"}
    assert (found.name, found.packages, found.files) == (recipe.name, recipe.packages, recipe.files)


def test_the_digest_is_that_of_the_file(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b"{}\n")
    assert bundle.digest_of(tmp_path / "events.jsonl") == hashlib.sha256(b"{}\n").hexdigest()
    assert bundle.digest_of(tmp_path / "none") == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize("read", [bundle.read, bundle.read_recipe])
def test_what_is_no_sealed_runs_folder_says_so(tmp_path, read):
    with pytest.raises(SpecError, match="no folder of a sealed run"):
        read(tmp_path)


DAMAGES = ["", "{", "[]", "null", '"x"', "{}", "\x00", '{"recipe": 1, "contents": {}}', '{"recipe": {}, "contents": 3}',
           '{"recipe": {"name": "x"}, "contents": {"/a": "%"}}', '{"seed": "x"}', '{"seed": 1, "template": 2}',
           "[" * 100_000, '{"seed": NaN}']  # fmt: skip


@pytest.mark.parametrize("content", DAMAGES)
@pytest.mark.parametrize(("name", "read"), [(SEALED, bundle.read), (RECIPE, bundle.read_recipe)])
def test_damage_is_one_error(tmp_path, name, read, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(SpecError, match="is damaged"):
        read(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["seed", "template", "snapshot", "inputs", "packages", "events_sha256", "evidence"]), JSON)
def test_whatever_stands_in_a_field_is_read_or_refused(tmp_path_factory, field, value):
    folder: Path = tmp_path_factory.mktemp("run")
    (folder / SEALED).write_text(json.dumps({**sealed().model_dump(mode="json"), field: value}))
    try:
        assert isinstance(bundle.read(folder), Sealed)
    except SpecError as error:
        assert "damaged" in error.what
