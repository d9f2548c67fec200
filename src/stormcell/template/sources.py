"""Debian's own entries in the apt sources of this machine: the guest is made of what the host already trusts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from stormcell.machine.host import tool
from stormcell.spec.errors import HostError

APT = Path("/etc/apt")
PASSED_OPTIONS = re.compile(r"Acquire::(http|https|ftp)::|Acquire::(Check-Valid-Until|Check-Date|Retries)$")
"""Settings that a host needs to reach its mirror (proxies, certificates, snapshots of old dates)."""
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]*)")
Stanza = dict[str, str]


def host_suite(os_release: Path = Path("/etc/os-release")) -> str:
    """The Debian release of the host, e.g. `bookworm`: the guest is of the same. Raises HostError elsewhere."""
    text = os_release.read_text() if os_release.is_file() else ""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    suite = values.get("VERSION_CODENAME", "").strip("\"'")
    if values.get("ID", "").strip("\"'") != "debian" or not suite:
        raise HostError("this machine is no Debian", rule="a guest is built from the apt sources of a Debian host")
    return suite


def debian_sources(suite: str, apt: Path = APT) -> str:
    """deb822 text with the entries for `suite`, its updates and its security suite. Raises HostError for none.

    Sources of others often use Debian's suite names too; those that name a key ring which is not Debian's are left
    out, unless nothing else is there (a mirror with a key of its own).
    """
    wanted = {suite, f"{suite}-updates", f"{suite}-security"}
    found = [kept for stanza in _stanzas(apt) if (kept := _for_suites(stanza, wanted))]
    ours = [s for s in found if "debian-archive" in s.get("Signed-By", "debian-archive")] or found
    if not any(suite in s["Suites"].split() for s in ours):
        raise HostError(
            f"no apt source of this machine has Debian's suite '{suite}' with its component main",
            where=str(apt),
            rule="a guest is built from the sources that this machine is configured with",
        )
    return "\n".join("".join(f"{key}: {value}\n" for key, value in stanza.items()) for stanza in ours)


def _stanzas(apt: Path) -> Iterator[Stanza]:
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if path.suffix == ".sources":
            yield from _deb822(text)
        elif path.suffix == ".list":
            yield from _one_line(text)


def _deb822(text: str) -> Iterator[Stanza]:
    stanza: Stanza = {}
    key = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza = {}
        elif line[0] in " \t" and key:
            stanza[key] += "\n" + line
        else:
            key, _, value = line.partition(":")
            key = "-".join(part.capitalize() for part in key.strip().split("-"))
            key = {"Uris": "URIs"}.get(key, key)
            stanza[key] = value.strip()


def _one_line(text: str) -> Iterator[Stanza]:
    for line in text.splitlines():
        if match := _ONE_LINE.match(line.strip()):
            stanza = {
                "Types": "deb",
                "URIs": match["uri"],
                "Suites": match["suite"],
                "Components": match["components"].strip(),
            }
            for option in (match["options"] or "").split():
                name, _, value = option.partition("=")
                if name.lower() in {"signed-by", "trusted"}:
                    stanza["-".join(part.capitalize() for part in name.split("-"))] = value.replace(",", " ")
            yield stanza


def _for_suites(stanza: Stanza, wanted: set[str]) -> Stanza | None:
    suites = [name for name in stanza.get("Suites", "").split() if name in wanted]
    components = [name for name in stanza.get("Components", "").split() if name == "main"]
    if not suites or not components or "deb" not in stanza.get("Types", "").split() or "URIs" not in stanza:
        return None
    if stanza.get("Enabled", "yes").lower() in {"no", "false", "0"}:
        return None
    names = ("URIs", "Signed-By", "Trusted", "Check-Valid-Until")
    kept: Stanza = {name: stanza[name] for name in names if name in stanza}
    return {"Types": "deb", **kept, "Suites": " ".join(suites), "Components": "main"}


def passed_options(dump: str) -> list[str]:
    """The lines of `apt-config dump` that a build in a chroot must know too."""
    lines = [line.strip() for line in dump.splitlines() if PASSED_OPTIONS.match(line.split(" ", 1)[0])]
    return [line for line in lines if not line.endswith(' "";')]


def apt_options() -> list[str]:
    """`passed_options` of this host."""
    done = subprocess.run(
        [tool("apt-config", "apt"), "dump", "Acquire"], capture_output=True, text=True, timeout=60, check=False
    )
    return passed_options(done.stdout)
