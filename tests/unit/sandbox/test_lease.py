import threading

import pytest

from stormcell.sandbox import lease
from stormcell.sandbox.hostclock import boot_id, boottime_ns
from stormcell.sandbox.lease import Lease
from stormcell.spec.errors import SandboxNotFound


def test_a_lease_is_over_after_its_ttl_and_in_another_boot():
    it = Lease(deadline_ns=10_000_000_000, boot_id="here", ttl_seconds=5)
    assert it.left_seconds(4_000_000_000, "here") == 6.0
    assert not it.overdue(9_999_999_999, "here")
    assert it.overdue(10_000_000_000, "here")
    assert it.overdue(0, "another boot")
    assert it.left_seconds(0, "another boot") == 0.0


def test_begin_read_renew(tmp_path):
    first = lease.begin(tmp_path, 100)
    assert lease.read(tmp_path) == first
    assert 99 < first.left_seconds(boottime_ns(), boot_id()) <= 100
    second = lease.renew(tmp_path, 200)
    assert second.deadline_ns > first.deadline_ns
    assert lease.read(tmp_path) == second


def test_a_claimed_lease_cannot_be_renewed_and_the_error_says_why(tmp_path):
    lease.begin(tmp_path, 100)
    assert lease.claim(tmp_path, "its ttl of 100 s passed", only_overdue=False)
    with pytest.raises(SandboxNotFound, match="its ttl of 100 s passed"):
        lease.renew(tmp_path, 100)
    found = lease.read(tmp_path)
    assert found is not None
    assert found.overdue(0, boot_id())


def test_a_claim_of_the_overdue_spares_what_was_renewed(tmp_path):
    lease.begin(tmp_path, 100)
    assert not lease.claim(tmp_path, "ttl", only_overdue=True)
    lease.renew(tmp_path, 100)


def test_a_second_claim_succeeds_for_the_first_claimer_may_be_dead(tmp_path):
    lease.begin(tmp_path, 0)
    assert lease.claim(tmp_path, "ttl", only_overdue=True)
    assert lease.claim(tmp_path, "ttl", only_overdue=True)


def test_without_a_lease_there_is_nothing_to_renew(tmp_path):
    assert lease.read(tmp_path) is None
    with pytest.raises(SandboxNotFound):
        lease.renew(tmp_path, 5)
    with pytest.raises(SandboxNotFound):
        lease.renew(tmp_path / "gone", 5)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"deadline_ns": 1}', b"\x00" * 600])
def test_a_torn_lease_reads_as_none(tmp_path, text):
    (tmp_path / "lease").write_bytes(text)
    assert lease.read(tmp_path) is None


def test_renewals_and_a_claim_at_once_leave_no_lease_that_was_revived(tmp_path):
    for _ in range(50):
        lease.begin(tmp_path, 0)
        refused: list[int] = []

        def renewing(refused=refused):
            for _ in range(20):
                try:
                    lease.renew(tmp_path, 100)
                except SandboxNotFound:
                    refused.append(1)

        thread = threading.Thread(target=renewing)
        thread.start()
        claimed = lease.claim(tmp_path, "ttl", only_overdue=True)
        thread.join()
        last = lease.read(tmp_path)
        assert last is not None
        assert bool(last.claimed) == claimed
        assert claimed or not refused
