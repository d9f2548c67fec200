"""DNS faults that were not what they were said to be: reports 9, 10 and 11.

9: https://github.com/litmuschaos/chaos-charts/issues/564, 10: https://github.com/chaos-mesh/chaos-mesh/issues/770,
11: https://github.com/chaos-mesh/chaos-mesh/issues/4140
"""

import pytest

from tests.guest.faults.fault_trial import until

OWN = "python3 /root/dns_tool.py"
TRUTH = "198.51.100.7 2001:db8::7"
PACKETS = "nft -j list table inet chaos | grep -o '\"packets\": [0-9]*' | awk '{n += $2} END {print n + 0}'"
RULES = "nft add table inet chaos; nft add chain inet chaos {chain} '{{ type filter hook {hook} priority 0 ; }}'; "


@pytest.fixture(scope="module")
def guest(bench):
    """A resolver of its own in the guest."""
    bench.run(f"setsid {OWN} serve 127.0.0.53 ::1 > /dev/null 2>&1 &")
    bench.run(until(f"{OWN} ask ::1 a.test A tcp | grep -q ^0"))
    return bench


def resolver(guest, options=""):
    guest.run(f"printf 'nameserver 127.0.0.53\\noptions timeout:10 attempts:1 {options}\\n' > /etc/resolv.conf")


def lookup(name, times=1):
    return f"{OWN} lookup {name} {times}"


def unanswered(name):
    """Over TCP the C library waits longer than anybody here."""
    return f"timeout 3 {lookup(name)}"


def words(said):
    return said.split()[:-1]


def dropped(*ways):
    """The report's way: rules in the output hook."""
    rules = "".join(f"nft add rule inet chaos o {way} dport 53 counter drop; " for way in ways)
    return {
        "kind": "custom.commands",
        "apply": RULES.format(chain="o", hook="output") + rules,
        "undo": "nft delete table inet chaos",
        "shows": "nft list table inet chaos | grep -q 'dport 53 counter'",
        "counter": PACKETS,
    }


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_09_an_answer_from_the_hosts_file_is_no_act(guest, way):
    resolver(guest)
    guest.run("cp /etc/hosts /tmp/hosts; echo '10.1.1.1 svc.test' >> /etc/hosts")
    spec = dropped("udp", "tcp") if way == "naive" else {"kind": "dns.fail", "names": ["svc.test", "*.svc.test"]}
    trial = guest.attempt(spec, under=[lookup("svc.test")])
    guest.run("cp /tmp/hosts /etc/hosts")
    assert words(trial.said[0]) == ["10.1.1.1"]
    assert trial.receipt.in_force
    assert trial.acted == 0, "void: it touched nothing"
    if way == "ours":
        assert "in /etc/hosts, so that no query is needed: svc.test" in trial.receipt.notes
        again = guest.attempt(spec, under=[lookup("svc.test"), lookup("fresh-4711.svc.test")])
        again.proven()
        assert [words(said) for said in again.said] == [["EAI_NONAME"], ["EAI_NONAME"]]


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_09_a_cache_that_answers_is_no_act_and_ours_empties_it(guest, way):
    """A stand-in for nscd: by that name, and its own command empties it."""
    resolver(guest)
    guest.put("/usr/local/sbin/nscd", "#!/bin/sh\necho $* >> /tmp/nscd.log\n")
    guest.run("chmod 755 /usr/local/sbin/nscd; rm -f /tmp/nscd.log; mkdir -p /opt/run; cp /bin/sleep /opt/run/nscd; "
              "setsid /opt/run/nscd 300 > /dev/null 2>&1 & echo $! > /tmp/nscd.pid; "
              f"{until('grep -qx nscd /proc/$!/comm')}")  # fmt: skip
    spec = dropped("udp", "tcp") if way == "naive" else {"kind": "dns.fail", "names": "*.svc.test"}
    trial = guest.attempt(spec, under=[] if way == "naive" else [lookup("fresh-4712.svc.test")])
    log = guest.run("cat /tmp/nscd.log 2>/dev/null || true").splitlines()
    guest.run("kill $(cat /tmp/nscd.pid)")
    assert trial.receipt.in_force
    if way == "naive":
        assert trial.acted == 0, "void: whatever the cache knows is answered without a query"
        assert log == []
    else:
        trial.proven()
        assert log == ["-i hosts", "-i hosts"], "at the act, and at the undo of what it learnt meanwhile"
        assert any("emptied at the act and at the undo: nscd" in note for note in trial.receipt.notes)


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_10_an_outage_is_every_way_to_ask(guest, way):
    resolver(guest, "use-vc")
    if way == "naive":
        trial = guest.attempt(dropped("udp"), under=[lookup("svc.test")])
        assert words(trial.said[0]) == TRUTH.split(), "it still resolves, over TCP"
        assert trial.receipt.in_force
        assert trial.acted == 0, "void: it touched nothing"
        both = guest.attempt(dropped("udp", "tcp"), under=[unanswered("svc.test")])
        both.proven()
        assert both.said == [""]
        return
    tool = "python3 /root/tool.py connect"
    ways = [f"{tool} {host} {port} 1" for host in ("127.0.0.1", "::1") for port in (53, 853)]
    udp = [f"{OWN} ask {host} svc.test A udp 1" for host in ("127.0.0.53", "::1")]
    trial = guest.attempt({"kind": "dns.drop"}, under=[unanswered("svc.test"), " & ".join([*ways, *udp]) + " & wait"])
    trial.proven()
    assert trial.said[0] == ""
    assert sorted(line.split()[0] for line in trial.said[1].splitlines()) == ["TIMEOUT"] * 4 + ["TimeoutError"] * 2
    for family in ("ip", "ip6"):
        for protocol, port in (("udp", 53), ("tcp", 53), ("tcp", 853)):
            label = f"{family} {protocol} dport {port}: "
            assert any(label in note for note in trial.receipt.notes), f"each way has its own counter: {label}"
    assert any("over HTTPS is not covered" in said for said in trial.fault.cannot_know())


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_11_other_names_resolve_as_before(guest, way):
    resolver(guest)
    before = guest.run(lookup("b.test", 3))
    if way == "naive":  # the names are sent to a server that would know the pattern, and cannot be reached
        spec = {
            "kind": "custom.commands",
            "apply": "cp /etc/resolv.conf /tmp/resolv; " + RULES.format(chain="i", hook="input") +
                     "nft add rule inet chaos i udp sport 53 ip saddr 10.0.2.99 counter; "
                     "printf 'nameserver 10.0.2.99\noptions timeout:1 attempts:1\n' > /etc/resolv.conf",
            "undo": "cp /tmp/resolv /etc/resolv.conf; nft delete table inet chaos",
            "shows": "grep -q 10.0.2.99 /etc/resolv.conf",
            "counter": PACKETS,
        }  # fmt: skip
        trial = guest.attempt(spec, under=[lookup("a.test"), lookup("b.test")])
        assert [words(said) for said in trial.said] == [["EAI_AGAIN"], ["EAI_AGAIN"]], "b.test was not meant"
        assert trial.receipt.in_force
        assert trial.acted == 0, "void: not one answer came from the fault"
        return
    trial = guest.attempt({"kind": "dns.fail", "names": "a.test"}, under=[lookup("a.test"), lookup("b.test", 3)])
    trial.proven()
    failed, other = trial.said
    assert words(failed) == ["EAI_NONAME"]
    assert words(other) == words(before) == TRUTH.split()
    assert int(other.split()[-1]) <= 2 * int(before.split()[-1]) + 150, "milliseconds, and the noise of the emulation"
    assert "6 other queries passed: 6 were answered, 0 were not" in trial.receipt.notes
