"""Whatever a file holds, one error that names it, and never another exception."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.engine.load import load_file
from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("<<: &a {<<: *a}\nname: b\n", "x.yaml"),
        ('a: !!python/object/apply:os.system ["true"]\nb: !odd [1]\nc: "\\0"\n', "x.yaml:3"),
        ('a: 1\nb: "\\ud800"\n', "x.yaml:2"),
        ('a: 1\nb:\n  - ok\n  - "half\\0"\n', "x.yaml:4"),
        ('a: 1\n"\\0": 1\n', "x.yaml:1"),
        ("a: " + "[" * 3000, "x.yaml"),
        ("a: " + "9" * 5000, "x.yaml"),
        ("a: 2020-99-99\n", "x.yaml"),
    ],
)
def test_odd_input_is_one_error(text: str, where: str) -> None:
    with pytest.raises(SpecError) as caught:
        yamlfile.parse(text, "x.yaml")
    assert caught.value.where == where


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: [" + "1," * 40_000 + "]\n")
    monkeypatch.setattr(yamlfile, "parse", lambda *_: pytest.fail("it was parsed"))
    with pytest.raises(SpecError, match="larger than 64 KiB"):
        yamlfile.load(path)


@given(st.text(alphabet="ab<&*!|>%@`'\"\\0ud8 \n\t:-?{}[],#~=.19", max_size=60))
def test_no_text_makes_the_parser_raise_anything_else(text: str) -> None:
    try:
        document = yamlfile.parse(text, "x.yaml")
    except SpecError:
        return
    assert document.text == text
    document.text.encode()


def test_a_file_is_read_once(tmp_path: Path) -> None:
    """A pipe (`run <(...)`) gives its text once."""
    text = (
        "name: a\nquestion: b?\ntemplate: base\n"
        "steady_state: [{name: p, command: {run: 'true'}, expect: {exit_code: 0}}]\n"
        "fault: {kind: net.delay, device: lo, delay: 10ms}\npredict: survives\n"
    )
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    assert load_file(path).text == text
    writer.join()
