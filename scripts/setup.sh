#!/bin/sh
# Makes a plain Debian 12 ready for Stormcell: packages from Debian (root or sudo), the rest into .venv.
# Idempotent: what is there is left alone. `setup.sh dev` adds what the tests need.
set -eu
cd "$(dirname "$0")/.."

say() { printf '[setup] %s\n' "$*"; }

packages="qemu-system-x86 qemu-utils mmdebstrap e2fsprogs busybox-static uidmap kmod python3 python3-venv"
# the report is looked at in a browser
[ "${1:-}" = dev ] && packages="$packages chromium fonts-dejavu-core"

missing=""
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
    say "from Debian:$missing"
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            say "these packages need root; as root run: apt-get install --no-install-recommends$missing"
            exit 2
        fi
        as_root="sudo"
    fi
    $as_root apt-get update -qq
    # shellcheck disable=SC2086  # lists of words are meant
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

python=""
for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 /usr/bin/python3; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    say "no Python 3.11, 3.12 or 3.13 with venv was found; install python3-venv or set PYTHON"
    exit 2
fi

extra=""
[ "${1:-}" = dev ] && extra="[dev]"
stamp=".venv/.installed$extra"
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c '' 2>/dev/null; then
    say "virtual environment in .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ] || [ constraints.txt -nt "$stamp" ] || [ ! -x .venv/bin/stormcell ]; then
    say "Python packages into .venv"
    .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".$extra"
    touch "$stamp"
fi
say "ready: .venv/bin/stormcell"
