"""Who a sealed machine is: a function of seed and boot, and of nothing else."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from stormcell.engine.sealed.identity import ENTROPY_BYTES, resume_request

SEEDS = st.integers(-(2**70), 2**70)
DRAWN = ("machine_id", "generation", "entropy")


@given(SEEDS, st.integers(0, 5))
def test_it_is_repeated_and_of_its_length(seed, boot):
    request = resume_request(seed, boot)
    assert request == resume_request(seed, boot)
    assert [len(bytes.fromhex(request[name])) for name in DRAWN] == [16, 8, ENTROPY_BYTES]


@given(SEEDS, SEEDS, st.integers(0, 5), st.integers(0, 5))
def test_another_seed_or_boot_is_another_one_in_everything(seed, other, boot, later):
    if (seed, boot) != (other, later):
        one, two = resume_request(seed, boot), resume_request(other, later)
        assert all(one[name] != two[name] for name in DRAWN)


def test_another_process_draws_the_same():
    program = "from stormcell.engine.sealed.identity import resume_request; print(resume_request(7, 1))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": salt},
        ).stdout
        for salt in ("1", "2")
    }
    assert found == {f"{resume_request(7, 1)}\n"}


def test_no_time_of_the_host_goes_in():
    request = resume_request(0)
    assert (request["wall_clock_ns"], request["advance_ns"]) == (0, 0)
