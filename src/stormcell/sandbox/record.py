"""record.json: what a sandbox is, readable by any later process."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from stormcell.machine.durable import write_atomically
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.spec.errors import SpecError

State = Literal["creating", "waiting", "running"]
"""`waiting` is for whoever asks its owner first (waiting.py). There is no `killed`: a claim on the lease says that, and
then the record goes with its folder."""

ID = re.compile(r"sc-[0-9a-z]{8}\Z")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o, u: a person can read an id to another
_PORT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")

METADATA_KEYS, METADATA_BYTES = 64, 64 << 10
TTL_MIN, TTL_MAX = 1.0, 30 * 86400.0
RECORD_MAX = 1 << 20


class RecordTorn(Exception):
    """The file is there and is no record: half written, or by another hand."""


def new_id() -> str:
    """40 random bits; the folder is made exclusively, so a collision is found and not used."""
    return "sc-" + "".join(secrets.choice(_ALPHABET) for _ in range(8))


@dataclass(frozen=True)
class Record:
    """One sandbox. `owner` is the process that will kill it, or None when only its ttl does.

    `disk` is the overlay in its folder that it writes to, over `layers` (oldest first) and the template's disk.
    `memory` says what file is behind its memory: `template`, `empty` (after a cold boot), or a layer. `parent` is the
    sandbox that it was forked from, `snapshot` the saved one that it was restored from.
    """

    id: str
    template: str
    template_name: str
    state: State
    ttl_seconds: float
    owner: ProcessRef | None
    machine: ProcessRef | None = None
    created: float = field(default_factory=time.time)
    metadata: Mapping[str, str] = field(default_factory=dict)
    open_ports: Mapping[str, int] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    raw: bool = False
    disk: str = "disk.qcow2"
    layers: tuple[str, ...] = ()
    memory: str = "template"
    parent: str = ""
    snapshot: str = ""

    def write(self, folder: Path) -> None:
        """Into `folder`/record.json, whole or not at all.

        Not synced to the disk, as the lease is not: it must outlive its writer, not the host, for nothing of another
        boot is used again; a torn one goes with its sandbox.
        """
        write_atomically(folder / "record.json", json.dumps(asdict(self), indent=1), sync=False)

    @classmethod
    def read(cls, folder: Path) -> Record | None:
        """None when there is no file. Raises RecordTorn when it is no record."""
        try:
            with (folder / "record.json").open("rb") as file:
                text = file.read(RECORD_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RecordTorn(str(error)) from error
        try:
            return _decode(json.loads(text), folder.name)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise RecordTorn(f"{type(error).__name__}: {error}") from error


def _process(data: Any) -> ProcessRef | None:
    if data is None:
        return None
    if not 0 < int(data["pid"]) < 1 << 31:
        raise ValueError(f"pid {data['pid']} is out of range")
    return ProcessRef(int(data["pid"]), int(data["start_time"]), str(data["boot_id"]))


def _decode(data: Any, name: str) -> Record:
    if data["id"] != name:
        raise ValueError(f"it names '{data['id']}' and lies in '{name}'")
    if data["state"] not in get_args(State):
        raise ValueError(f"unknown state '{data['state']}'")
    return Record(
        id=data["id"],
        template=str(data["template"]),
        template_name=str(data["template_name"]),
        state=data["state"],
        ttl_seconds=float(data["ttl_seconds"]),
        owner=_process(data["owner"]),
        machine=_process(data["machine"]),
        created=float(data["created"]),
        metadata={str(k): str(v) for k, v in data["metadata"].items()},
        open_ports={str(k): int(v) for k, v in data["open_ports"].items()},
        ports={str(k): int(v) for k, v in data["ports"].items()},
        raw=bool(data["raw"]),
        disk=_plain_name(data["disk"]),
        layers=tuple(_plain_name(name) for name in data["layers"]),
        memory=_plain_name(data["memory"]),
        parent=str(data["parent"]),
        snapshot=str(data["snapshot"]),
    )


def _plain_name(text: Any) -> str:
    if not isinstance(text, str) or not text or "/" in text or text.startswith("."):
        raise ValueError(f"{text!r} names no file")
    return text


def checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Text to text, at most 64 keys and 64 KiB in all. Raises SpecError."""
    if not isinstance(metadata, Mapping | None):
        raise SpecError(f"metadata {metadata!r} is no mapping", rule="text to text", remedy="write {'key': 'value'}")
    pairs = dict(metadata or {})
    total = 0
    for key, value in pairs.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise SpecError(f"metadata {key!r} is not text", rule="keys and values are strings", remedy="use str()")
        try:
            total += len(key.encode()) + len(value.encode())
        except UnicodeEncodeError as error:
            raise SpecError(f"metadata {key!r} is no Unicode text", remedy="encode bytes as text first") from error
    if len(pairs) > METADATA_KEYS or total > METADATA_BYTES:
        raise SpecError(
            f"the metadata has {len(pairs)} keys and {total} bytes",
            rule=f"at most {METADATA_KEYS} keys and {METADATA_BYTES} bytes",
        )
    return pairs


def checked_ports(ports: Mapping[str, int] | None) -> dict[str, int]:
    """Names to guest ports. Raises SpecError."""
    pairs = dict(ports or {})
    for name, port in pairs.items():
        if not isinstance(name, str) or not _PORT_NAME.match(name):
            raise SpecError(f"'{name}' cannot name a port", rule="a-z first, then a-z 0-9 _ -, at most 32 characters")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise SpecError(f"guest port {port!r} of '{name}' is out of range", rule="1 to 65535")
    return pairs


def checked_ttl(ttl_seconds: float) -> float:
    """Seconds without use after which a sandbox goes. Raises SpecError."""
    if isinstance(ttl_seconds, bool) or not isinstance(ttl_seconds, int | float):
        raise SpecError(f"ttl_seconds is {ttl_seconds!r}", rule="a number of seconds")
    if not TTL_MIN <= ttl_seconds <= TTL_MAX:
        raise SpecError(f"a ttl of {ttl_seconds:g} s is out of range", rule="between 1 second and 30 days")
    return float(ttl_seconds)
