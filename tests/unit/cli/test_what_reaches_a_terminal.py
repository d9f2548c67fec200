"""Guests and files write into what we show; none of it may steer the terminal of the reader or end the program."""

from rich.markup import escape
from rich.table import Table

from stormcell.cli.output import report_error, safe, say
from stormcell.cli.screen import Screen
from stormcell.spec.errors import BuildFailed

EVIL = "a\x1b]0;title\x07\x1b[2J\x9b31m\rz\x00\udcff\ud800\u202eend :smile: ü\tb\nc"
SHOWN = r"a\x1b]0;title\x07\x1b[2J\x9b31m\x0dz\x00\udcff\ud800\u202eend :smile: ü" + "\tb\nc"


def test_safe_text_names_what_it_does_not_show():
    assert safe(EVIL) == SHOWN


def test_a_line_and_an_error_are_safe(capsys):
    say(EVIL)
    report_error(BuildFailed("the setup failed", detail=EVIL))
    said = capsys.readouterr().err
    assert said.startswith(SHOWN)
    assert "\x1b" not in said and said.count(r"\x1b]0;title") == 2


def test_a_table_and_a_styled_line_are_safe(capsys):
    table = Table("name")
    table.add_row(escape(EVIL))
    screen = Screen()
    screen.print(table)
    screen.print(f"[bold]{escape(EVIL)}[/bold]")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and shown.count(r"\x1b]0;title\x07") == 2
    assert ":smile:" in shown
