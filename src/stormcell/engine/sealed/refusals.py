"""What a sealed run cannot do, found before anything starts, with what to use instead. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stormcell.engine.load import Loaded
from stormcell.faults.machine_crash import MachineCrash
from stormcell.machine.sealed.layout import Layout
from stormcell.spec.errors import SpecError
from stormcell.spec.experiment import Experiment
from stormcell.spec.fault import Fault

NOTHING = "nothing reaches a sealed machine while it runs, and nothing of the host's may decide what happens in it"
CARD = "eth0"


@dataclass(frozen=True)
class Refusal:
    """`where` is the field."""

    where: str
    what: str
    remedy: str


def check_sealed(loaded: Loaded) -> None:
    """Raises SpecError for the first one; the others are its detail."""
    found = [*refusals(loaded)]
    if found:
        first, *more = found
        raise SpecError(
            f"{first.where}: {first.what}",
            where=loaded.where(int(part) if part.isdigit() else part for part in first.where.split(".")),
            rule=NOTHING,
            remedy=first.remedy,
            detail="\n".join(f"{item.where}: {item.what}; {item.remedy}" for item in more),
        )


def refusals(loaded: Loaded) -> Iterator[Refusal]:
    """All of them, in the order of the file."""
    experiment = loaded.experiment
    if experiment.branches is not None:
        what = "branches are not sealed"
        yield Refusal("branches", what, "make each one an experiment, or explore the faults with `stormcell explore`")
    yield from _probes(experiment)
    for item in loaded.disturbances:
        name = "fault" if experiment.faults is None else f"faults.{item.id}"
        fault = item.fault
        if fault.on_machine and not isinstance(fault, MachineCrash):
            what = f"{fault.kind} is carried out by the host"
            yield Refusal(name, what, f"use {_instead(fault.kind)}")
        if CARD in _devices(fault) and getattr(fault, "node", None) is None:
            what = f"{fault.kind} acts on {CARD}, and a sealed machine has no card"
            yield Refusal(name, what, "act on `device: lo`, or give the services nodes and the fault a `node`")
    if loaded.recipe.vcpus != 1:
        what = f"the template has {loaded.recipe.vcpus} processors, and a sealed machine has one"
        yield Refusal("template", what, "give the template `vcpus: 1`")
    try:
        Layout(loaded.recipe.memory, loaded.recipe.disk.size)
    except SpecError as error:
        yield Refusal("template", f"{error.what}: {error.rule}", error.remedy)


def _probes(experiment: Experiment) -> Iterator[Refusal]:
    for number, probe in enumerate(experiment.steady_state):
        if probe.vantage == "host":
            what = f"the probe '{probe.name}' looks from the host"
            yield Refusal(f"steady_state.{number}", what, "write `from: guest`, with an address of the guest's own")


def _devices(fault: Fault) -> tuple[str, ...]:
    found = getattr(fault, "device", ())
    return (found,) if isinstance(found, str) else tuple(found or ())


def _instead(kind: str) -> str:
    known = {
        "machine.pause": "process.stop, which stops the processes",
        "machine.link": "net.down on a device of the guest's, or a partition of nodes",
        "machine.slow": "cpu.limit, which slows the processes",
    }
    return known.get(kind, "a fault that acts within the guest: see `stormcell faults`")
