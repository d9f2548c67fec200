"""The pages in docs/faults/, made from the classes. `python -m stormcell.faults.docs --write | --check [FOLDER]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stormcell.faults import CATALOGUE, parse
from stormcell.spec.fault import Act, Command, Fault

FOLDER = Path(__file__).parents[3] / "docs" / "faults"
MADE = "<!-- made by `python -m stormcell.faults.docs --write` from src/stormcell/faults/ -->"


def pages() -> dict[str, str]:
    """File name to text: one page a kind, and the list of all."""
    return {"README.md": _contents(), **{f"{kind}.md": _page(fault) for kind, fault in CATALOGUE.items()}}


def differences(folder: Path) -> list[str]:
    """Names of files that are missing, stale, or of no fault."""
    wanted = pages()
    there = {path.name: path.read_text() for path in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def _contents() -> str:
    rows = [
        f"| [{kind}]({kind}.md) | {summary(fault)} | {fault.counts} | {fault.proves} |"
        for kind, fault in CATALOGUE.items()
        if not fault.unavailable
    ]
    lacking = [
        f"| [{kind}]({kind}.md) | {summary(fault)} | {fault.unavailable} |"
        for kind, fault in CATALOGUE.items()
        if fault.unavailable
    ]
    if lacking:
        rows += [
            "",
            "Unavailable in today's guests:",
            "",
            "| kind | what would happen | why not |",
            "|---|---|---|",
            *lacking,
        ]
    return "\n".join(
        [
            "# Faults", "", MADE, "",
            "A run counts only when the kernel shows the fault (`in force`) and its counters say that it touched",
            "something (`acted` is not 0). Otherwise the verdict is `void`.", "",
            "| kind | what happens | `acted` counts | what proves it |", "|---|---|---|---|", *rows, "",
        ]
    )  # fmt: skip


def _page(fault: type[Fault]) -> str:
    if fault.unavailable:
        head = [f"# {fault.kind}", "", MADE, "", *_paragraphs(fault), ""]
        return "\n".join([*head, f"**Unavailable.** {fault.unavailable}.", ""])
    example = parse(fault.example)
    lines = [f"# {fault.kind}", "", MADE, "", *_paragraphs(fault), ""]
    lines += ["```yaml", f"fault: {_yaml(fault.example)}", "```", ""]
    lines += [
        "| parameter | written as | default | meaning |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in parameters(fault)),
        "",
    ]
    lines += [f"**Proof.** {fault.proves}.", "", f"**`acted` counts** {fault.counts}.", ""]
    lines += [f"**Needs.** {_needs(fault)}.", ""]
    lines += [f"**Carried out by** the {'host' if fault.on_machine else 'guest'}.", ""]
    if example.plan().apply:
        lines += ["## What the example does", "", *_commands(example.plan())]
    if known := example.cannot_know():
        lines += ["## What a run with the example cannot know", "", *(f"- {said}" for said in known), ""]
    return "\n".join(lines)


def summary(fault: type[Fault]) -> str:
    """The first line of its docstring."""
    return (fault.__doc__ or "").strip().splitlines()[0]


def _paragraphs(fault: type[Fault]) -> list[str]:
    return [line.strip() for line in (fault.__doc__ or "").strip().splitlines()]


def parameters(fault: type[Fault]) -> Iterator[tuple[str, str, str, str]]:
    """Name, how it is written, default and meaning of each, in Markdown."""
    schema = fault.model_json_schema()
    written = fault.model_json_schema(mode="serialization")["properties"]  # defaults as a spec would write them
    for name, field in schema.get("properties", {}).items():
        needed = name in schema.get("required", ())
        default = "required" if needed else _default(written[name].get("default"))
        meaning = " ".join(str(field.get("description", "")).split())
        yield f"`{name}`", _written(field), default, meaning


def _default(value: Any) -> str:
    if value is None or value == []:
        return ""
    return f"`{', '.join(value) if isinstance(value, list) else _yaml(value)}`"


def _written(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        kinds = [_written(item) for item in field["anyOf"] if item.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if field.get("type") == "array":
        return "a list of them"
    if examples := field.get("examples"):
        return " or ".join(f"`{example}`" for example in examples)
    return {"integer": "a whole number", "boolean": "`true`, `false`", "string": "text"}.get(str(field.get("type")), "")


def _needs(fault: type[Fault]) -> str:
    needs = fault.needs
    parts = [("programs", needs.programs), ("kernel modules", needs.modules), ("paths", needs.paths)]
    said = [f"{what} {', '.join(f'`{item}`' for item in items)}" for what, items in parts if items]
    return "; ".join(said) or "Nothing beyond the base guest"


def _commands(act: Act) -> Iterator[str]:
    warm = (("before the steady state", act.warm),) if act.warm else ()
    for title, commands in (*warm, ("apply", act.apply), ("undo", act.undo), ("read", act.read)):
        yield f"{title}:"
        yield ""
        yield "```"
        for command in commands:
            yield from _command(command)
        yield "```"
        yield ""


def _command(command: Command) -> Iterator[str]:
    if not command.stdin:
        yield " ".join(command.argv)
        return
    yield f"{' '.join(command.argv)} <<END"
    yield from command.stdin.splitlines()
    yield "END"


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return f'"{text}"' if "::" in text else text


def main(argv: list[str]) -> int:
    """Exit code 1 when `--check` found a difference, 2 for bad usage."""
    if len(argv) not in (1, 2) or argv[0] not in ("--write", "--check"):
        sys.stderr.write("usage: python -m stormcell.faults.docs --write|--check [FOLDER]\n")
        return 2
    folder = Path(argv[1]) if len(argv) == 2 else FOLDER
    stale = differences(folder)
    if argv[0] == "--check":
        sys.stderr.writelines(f"{folder / name} differs; run with --write\n" for name in stale)
        return int(bool(stale))
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for name in stale:
        if name in wanted:
            (folder / name).write_text(wanted[name])
        else:
            (folder / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
