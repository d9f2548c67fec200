import json

import pytest

from stormcell.spec.errors import TemplateBroken, TemplateNotFound
from stormcell.spec.home import Home
from stormcell.template.manifest import write_manifest
from stormcell.template.store import Store, find

DIGEST = "ab" * 32


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "state", tmp_path / "cache")


@pytest.fixture
def half_built(home):
    folder = home.templates / DIGEST
    folder.mkdir(parents=True)
    (folder / "memory").write_bytes(b"x")
    Store(home).remember("mine", DIGEST)
    return folder


def test_a_shipped_recipe_is_found_by_name(home):
    assert find("base", home).name == "base"


def test_a_name_that_is_almost_right(home):
    with pytest.raises(TemplateNotFound, match="did you mean 'base'"):
        find("bsae", home)


@pytest.mark.parametrize("path", ["./nowhere.yaml", "nowhere.yaml", "/no/such"])
def test_a_path_that_is_not_there(home, path):
    with pytest.raises(TemplateNotFound, match="no such recipe file"):
        find(path, home)


def test_a_name_is_no_path(home, tmp_path):
    (tmp_path / "secret").write_text(DIGEST)
    with pytest.raises(TemplateNotFound):
        Store(home).digest_of("../../secret")


def test_a_template_is_known_by_name_digest_or_its_beginning(home, half_built):
    store = Store(home)
    assert store.digest_of("mine") == store.digest_of(DIGEST) == store.digest_of(DIGEST[:8]) == DIGEST
    with pytest.raises(TemplateNotFound):
        store.digest_of(DIGEST[:7])


def test_a_half_built_one_is_never_opened(home, half_built):
    with pytest.raises(TemplateBroken):
        Store(home).open(DIGEST)
    (entry,) = Store(home).list()
    assert entry.state == "broken" and entry.reason


def test_one_that_is_not_there(home):
    with pytest.raises(TemplateNotFound):
        Store(home).open(DIGEST)
    assert Store(home).list() == []


def test_removing_takes_the_names_along(home, half_built):
    removed = Store(home).remove("mine")
    assert half_built in removed and home.names / "mine" in removed
    assert not half_built.exists() and not (home.names / "mine").exists()
    with pytest.raises(TemplateNotFound):
        Store(home).remove("mine")


def test_a_template_whose_recipe_is_gone(home, half_built):
    manifest = {"source": "/no/such/recipe.yaml", "files": {"memory": {"size": 1}}}
    (half_built / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TemplateNotFound, match="recipe of the template 'mine' is gone"):
        find("mine", home)


@pytest.mark.parametrize("about", [{}, {"inputs": 3}, {"inputs": {"image": "i"}, "folder": []}])
def test_a_manifest_of_another_version_is_broken_and_listed(home, half_built, about):
    write_manifest(half_built, about)
    (home.rootfs / "i").mkdir(parents=True)
    (home.rootfs / "i" / "image").write_bytes(b"x")
    write_manifest(home.rootfs / "i", {})
    with pytest.raises(TemplateBroken, match="another version"):
        Store(home).open(DIGEST)
    (entry,) = Store(home).list()
    assert (entry.state, entry.digest) == ("broken", DIGEST)
