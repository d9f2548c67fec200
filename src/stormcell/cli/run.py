"""`stormcell run`: one or more experiments, one table."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import click

from stormcell.cli.output import emit_json, json_flag, report_error, say


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print the plan and start nothing.")
@click.option("--seed", type=int, default=0, show_default=True, help="Drives what the runner draws at random.")
@click.option("--runs", type=click.Path(path_type=Path), help="Keep the runs' folders below this one.")
@click.option("--markdown", is_flag=True, help="Write the table as Markdown.")
@json_flag
def run(files: tuple[Path, ...], dry_run: bool, seed: int, runs: Path | None, markdown: bool, as_json: bool) -> None:
    """Run experiments and say what came out.

    Exit code: 0 survived, 1 failed, 2 bad usage or spec, 3 void, 4 unknown; of several runs the first of 2, 1, 4, 3, 0.
    """
    from stormcell.cli.plans import plan_data, show_plan
    from stormcell.cli.progress import Watcher
    from stormcell.cli.results import markdown_table, show_results
    from stormcell.engine.api import Outcome, run_async
    from stormcell.engine.load import Loaded, load_file
    from stormcell.spec.errors import StormcellError
    from stormcell.spec.verdict import EXIT_CODE, exit_code

    loaded: list[Loaded] = []
    faulty = False
    for file in files:
        try:
            loaded.append(load_file(file))
        except StormcellError as error:
            report_error(error)
            faulty = True
    if faulty:
        say("nothing was started")
        sys.exit(2)
    if dry_run:
        if as_json:
            plans = [plan_data(item) for item in loaded]
            emit_json(plans if len(plans) > 1 else plans[0])
        else:
            for item in loaded:
                show_plan(item)
        return

    for number in (signal.SIGTERM, signal.SIGHUP):
        # like Ctrl-C: the machine is released and the result is written
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    outcomes: list[Outcome] = []
    errors: list[StormcellError] = []
    interrupted = False
    with Watcher(total=len(loaded)) as watcher:
        for item in loaded:
            watcher.begin(item.experiment.name)
            try:
                outcome = asyncio.run(
                    run_async(item, seed=seed, runs=runs, on_event=watcher.event, on_build=watcher.build)
                )
            except KeyboardInterrupt:
                interrupted = True
                watcher.interrupted()
                break
            except StormcellError as error:
                errors.append(error)
                watcher.failed(error)
                continue
            outcomes.append(outcome)
            watcher.done(outcome)
    codes = [EXIT_CODE[o.verdict] for o in outcomes] + [e.exit_code for e in errors] + [4] * interrupted
    code = exit_code(codes)
    if as_json:
        emit_json(
            {
                "results": [outcome.as_dict() for outcome in outcomes],
                "errors": [error.as_dict() for error in errors],
                "interrupted": interrupted,
                "exit_code": code,
            }
        )
    elif markdown:
        click.echo(markdown_table([outcome.result for outcome in outcomes]))
    else:
        show_results(outcomes)
    sys.exit(code)
