import pytest

from stormcell.spec.errors import SpecError
from stormcell.spec.recipe import Recipe, load_recipe
from stormcell.template.store import shipped


def recipe_file(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return path


def test_the_shipped_recipes_are_valid_and_named_like_their_files():
    assert "base" in shipped()
    for name, path in shipped().items():
        assert load_recipe(path).name == name


def test_sizes_and_commands_are_read(tmp_path):
    recipe = load_recipe(
        recipe_file(
            tmp_path,
            "name: t\nmemory: 1GiB\ndisk: {size: 4GiB, inodes: 20000}\n"
            "services:\n  - {name: a, command: [/bin/a, -x]}\n  - {name: b, command: exec b}\n",
        )
    )
    assert recipe.memory == 2**30 and recipe.disk.size == 2**32
    assert [s.command for s in recipe.services] == [("/bin/a", "-x"), ("/bin/sh", "-c", "exec b")]


def test_sources_are_beside_the_recipe(tmp_path):
    (tmp_path / "app.py").write_bytes(b"\xff\x00")
    path = recipe_file(
        tmp_path, "name: t\nfiles:\n  - {path: /opt/app.py, source: app.py}\n  - {path: /a, content: x}\n"
    )
    assert load_recipe(path).contents() == {"/opt/app.py": b"\xff\x00", "/a": b"x"}
    assert load_recipe(path).source == path


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: t\npackges: [curl]\n", 2, "packages"),
        ("name: t\nmemory: 100MiB\n", 2, "between"),
        ("name: t\nmemory: 512\n", 2, "unit"),
        ("name: t\nmemory: 300001KiB\n", 2, "MiB"),
        ("name: Big Name\n", 1, "name"),
        ("name: t\npackages: ['curl; rm']\n", 2, "Debian package"),
        ("name: t\npackages: ['--force']\n", 2, "Debian package"),
        ("name: t\nfiles:\n  - {path: etc/x, content: a}\n", 3, "absolute"),
        ("name: t\nfiles:\n  - {path: /etc/../x, content: a}\n", 3, "absolute"),
        ("name: t\nfiles:\n  - {path: /x, content: a, source: b}\n", 3, "either"),
        ("name: t\nfiles:\n  - {path: /x, content: a, mode: '0999'}\n", 3, "mode"),
        ("name: t\nservices:\n  - {name: a, command: []}\n", 3, "command"),
        ("name: t\nservices:\n  - {name: a, command: x}\n  - {name: a, command: y}\n", 1, "2 times"),
        ("name: t\ndisk: {size: 100MiB}\n", 2, "between"),
        ("name: t\nvcpus: 0\n", 2, "vcpus"),
    ],
)
def test_bad_input_names_line_and_rule(tmp_path, text, line, says):
    path = recipe_file(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        load_recipe(path)
    assert f"{path}:{line}" in str(caught.value)
    assert says in str(caught.value)


def test_a_missing_source_is_found_before_anything_is_built(tmp_path):
    path = recipe_file(tmp_path, "name: t\nfiles: [{path: /x, source: not-there}]\n")
    with pytest.raises(SpecError, match="not-there"):
        load_recipe(path)


def test_a_recipe_can_be_made_in_python():
    assert Recipe(name="t", memory="1GiB").memory == 2**30
