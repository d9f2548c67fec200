"""`stormcell report`: runs' folders as a page, JUnit XML and JSON; `run --report` writes the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormcell.cli.output import emit_json, json_flag, report_error, say

if TYPE_CHECKING:
    from stormcell.report.write import Written
    from stormcell.spec.errors import StormcellError


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Write the three files into this folder.")
@click.option("--title", default="", help="Of the page; by default the experiment's name, or how many there are.")
@json_flag
def report(folders: tuple[Path, ...], out: Path, title: str, as_json: bool) -> None:
    """Make a report of runs from their folders: report.html, report.json and junit.xml.

    Every verdict is computed again from the folder. A run that was cut off has the verdict `unknown` and shows how far
    it came.

    Exit code: 0 the report was written, whatever it says; 2 a folder could not be read (the report names it), or
    the report could not be written.
    """
    from stormcell.report.load import load_report
    from stormcell.report.write import write

    found = load_report([(folder, "") for folder in folders], title=title)
    written = write(found, out)
    for problem in found.problems:
        say(f"left out: {problem.text}")
    if as_json:
        files = {"html": str(written.html), "json": str(written.json), "junit": str(written.junit)}
        emit_json({**files, "runs": len(found.runs), "problems": [problem.text for problem in found.problems]})
    else:
        click.echo(str(written.html))
    sys.exit(2 if found.problems else 0)


def write_report(
    out: Path,
    folders: Sequence[tuple[Path, str]],
    errors: Sequence[tuple[str, StormcellError]],
    *,
    interrupted: bool,
) -> int:
    """Of a batch that has just run. Says where it is; an exit code when it could not be written, else 0."""
    from stormcell.report.load import load_report
    from stormcell.report.write import write
    from stormcell.spec.errors import StormcellError

    try:
        written: Written = write(load_report(folders, errors=errors, interrupted=interrupted), out)
    except StormcellError as error:
        report_error(error)
        return error.exit_code
    say(f"report {written.html}")
    return 0
