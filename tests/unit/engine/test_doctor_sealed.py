"""The line of `stormcell doctor` about sealed runs: met, or the first thing that lacks, with its remedy."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from stormcell.engine import doctor
from stormcell.machine.kernel import Kernel
from stormcell.spec.errors import MissingTool
from stormcell.spec.home import Home


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "state", tmp_path / "cache")


def kernel(folder: Path, *modules: str) -> Kernel:
    found = Kernel(folder, "digest", "6.1-test", "linux-image-test")
    found.modules.mkdir(parents=True)
    lines = [f"kernel/drivers/nvdimm/{module}.ko:" for module in modules]
    (found.modules / "modules.dep").write_text("\n".join(lines) + "\n")
    return found


def test_it_is_met_here(home, tmp_path):
    line = doctor._sealed(home, kernel(tmp_path / "kernel", "nd_pmem", "nd_e820"))
    assert line.met and "nd_pmem" in line.why and not line.remedy


def test_a_kernel_without_persistent_memory_is_named(home, tmp_path):
    line = doctor._sealed(home, kernel(tmp_path / "kernel", "nd_e820"))
    assert line.met is False and "6.1-test has no module nd_pmem" in line.why and "linux-image" in line.remedy
    assert doctor._sealed(home, None).met is False


def test_a_full_disk(home, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    line = doctor._sealed(home, kernel(tmp_path / "kernel", "nd_pmem", "nd_e820"))
    assert (line.met, line.why, line.remedy) == (False, "1.0 GiB are free, 2 are wanted", "make room")


def test_without_setpriv_the_package_is_named(home, monkeypatch):
    def missing(program: str, package: str) -> Path:
        raise MissingTool(f"{program} is not installed", remedy=f"apt-get install {package}")

    monkeypatch.setattr(doctor, "tool", missing)
    line = doctor._sealed(home, None)
    assert (line.met, line.remedy) == (False, "apt-get install util-linux")
