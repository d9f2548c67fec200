"""DNS faults on real queries of the C library and of a client of our own; 127.0.0.53 and ::1 answer in the guest."""

import pytest

from stormcell import faults
from tests.guest.faults.fault_trial import until

OWN = "python3 /root/dns_tool.py"
SERVER = f"{OWN} serve 127.0.0.53 ::1"
TRUTH = "198.51.100.7 2001:db8::7"


@pytest.fixture(scope="module")
def local(bench):
    """The guest asks a server of its own, which runs for all tests of the module."""
    bench.run("printf 'nameserver 127.0.0.53\\noptions timeout:10 attempts:1\\n' > /etc/resolv.conf")
    bench.run(f"setsid {SERVER} > /dev/null 2>&1 &")
    bench.run(until(f"{OWN} ask ::1 a.test A tcp | grep -q ^0"))
    return bench


def lookup(name):
    return f"{OWN} lookup {name}"


def ask(server, name, kind="A", over="udp"):
    return f"{OWN} ask {server} {name} {kind} {over}"


def told(said):
    """What was answered, and milliseconds."""
    *words, took = said.split()
    return " ".join(words), int(took)


@pytest.mark.parametrize(
    ("rcode", "number", "libc"),
    [("NXDOMAIN", 3, "EAI_NONAME"), ("SERVFAIL", 2, "EAI_AGAIN"), ("REFUSED", 5, "EAI_AGAIN"), ("NODATA", 0, "EAI_N")],
)
def test_names_fail_in_every_way_to_ask_and_no_other_name_does(local, rcode, number, libc):
    under = [lookup("x.bad.test"), lookup("b.test")]
    if rcode == "NXDOMAIN":
        ways = [(server, over) for server in ("127.0.0.53", "::1") for over in ("udp", "tcp")]
        under += [ask(server, name, "A", over) for server, over in ways for name in ("A.Test", "b.test")]
    trial = local.attempt({"kind": "dns.fail", "names": ["a.test", "*.bad.test"], "rcode": rcode}, under=under)
    trial.proven()
    said = [told(one)[0] for one in trial.said]
    assert said[0].startswith(libc)
    assert said[1] == TRUTH
    assert set(said[2::2]) <= {str(number)}
    assert set(said[3::2]) <= {"0 198.51.100.7"}
    assert trial.acted == (6 if rcode == "NXDOMAIN" else 2)
    passed = 2 + len(said[3::2])
    assert f"{passed} other queries passed: {passed} were answered, 0 were not" in trial.receipt.notes
    assert told(local.run(lookup("x.bad.test")))[0] == TRUTH, "and after the undo it resolves"


def test_wrong_addresses_by_family(local):
    spec = {"kind": "dns.wrong", "names": "db.test"}
    under = [lookup("db.test"), lookup("b.test"), ask("::1", "db.test", "AAAA", "tcp")]
    four = local.attempt({**spec, "address": "192.0.2.1"}, under=under)
    four.proven()
    assert [told(said)[0] for said in four.said] == ["192.0.2.1", TRUTH, "0"]
    both = local.attempt({**spec, "address": ["192.0.2.1", "2001:db8::99"]}, under=under)
    both.proven()
    assert [told(said)[0] for said in both.said] == ["192.0.2.1 2001:db8::99", TRUTH, "0 2001:db8::99"]
    assert told(local.run(lookup("db.test")))[0] == TRUTH


def test_a_query_from_a_port_that_the_proxy_had_used_is_led_away_too(local):
    """What the proxy passes on leaves a flow in the kernel's table; who gets its port next is no part of that."""
    few, many = "40000 40019", local.run("cat /proc/sys/net/ipv4/ip_local_port_range").strip()
    limit = "echo {} > /proc/sys/net/ipv4/ip_local_port_range"
    under = [limit.format(few), f"{OWN} many 127.0.0.53 b.test 40", f"{OWN} many 127.0.0.53 a.test 40"]
    trial = local.attempt({"kind": "dns.fail", "names": "a.test"}, under=[*under, limit.format(many)])
    answers = [[told(line)[0] for line in said.splitlines()] for said in trial.said[1:3]]
    assert answers == [["0 198.51.100.7"] * 40, ["3"] * 40]
    trial.proven()
    assert trial.acted == 40


def test_late_answers_are_late_by_the_delay_and_the_others_are_not(local):
    under = [lookup("b.test"), lookup("late.test"), ask("::1", "late.test", "A", "tcp"), lookup("c.test")]
    trial = local.attempt({"kind": "dns.slow", "names": "*.test", "delay": "20ms", "share": "100%"}, under=under[:1])
    trial.proven()
    trial = local.attempt({"kind": "dns.slow", "names": "late.test", "delay": "900ms"}, under=under)
    trial.proven()
    said = [told(one) for one in trial.said]
    assert [words for words, _ in said] == [TRUTH, TRUTH, "0 198.51.100.7", TRUTH]
    assert said[1][1] >= 900
    assert said[2][1] >= 900
    assert min(said[0][1], said[3][1]) < 900
    assert trial.acted == 3, "two over UDP, one over TCP, and no other"
    assert trial.receipt.notes[0].startswith("answers were held between 0.9")


def test_a_share_of_the_queries_fails(local):
    trial = local.attempt(
        {"kind": "dns.fail", "share": "50%", "rcode": "REFUSED"}, under=[f"{OWN} many 127.0.0.53 a.test 40"]
    )
    trial.proven()
    failed = [line.split()[0] for line in trial.said[0].splitlines()].count("5")
    assert trial.acted == failed
    assert 3 < failed < 37


def test_a_server_that_nobody_runs_is_no_obstacle_and_eth0_is_covered(local):
    """The query would have left by eth0; the answer does not need the server."""
    trial = local.attempt({"kind": "dns.fail", "names": "a.test"}, under=[ask("10.0.2.99", "a.test"),
                                                                        ask("fec0::99", "a.test", "AAAA")])  # fmt: skip
    trial.proven()
    assert [told(said)[0] for said in trial.said] == ["3", "3"]


def test_a_socket_that_is_kept_is_led_back_after_the_undo(local):
    """The kernel keeps the redirection of a flow for as long as it lives: the undo makes it forget."""
    keeper = (
        "import socket,time,pathlib\n"
        "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.settimeout(20);s.connect(('127.0.0.53',53))\n"
        "q=bytes.fromhex('0007010000010000000000000161047465737400'+'00010001')\n"
        "for n in range(2):\n"
        "  s.send(q); pathlib.Path(f'/tmp/kept{n}').write_text(str(s.recv(999)[3]&15))\n"
        "  while not pathlib.Path('/tmp/go').exists(): time.sleep(.05)\n"
    )
    local.put("/root/keeper.py", keeper)
    under = [f"setsid python3 /root/keeper.py > /dev/null 2>&1 & {until('[ -s /tmp/kept0 ]')}; cat /tmp/kept0"]
    trial = local.attempt({"kind": "dns.fail", "names": "a.test"}, under=under)
    trial.proven()
    assert trial.said == ["3"]
    assert local.run(f"touch /tmp/go; {until('[ -s /tmp/kept1 ]')}; cat /tmp/kept1") == "0"


@pytest.mark.parametrize("kind", [{"kind": "dns.fail", "names": "a.test"}, {"kind": "dns.slow", "names": "a.test",
    "delay": "1s"}, {"kind": "dns.wrong", "names": "a.test", "address": "192.0.2.1"}])  # fmt: skip
def test_in_force_but_nobody_asked_for_that_name(local, kind):
    trial = local.attempt(kind, under=[lookup("b.test")])
    assert (trial.receipt.apply_ok, trial.receipt.in_force, trial.receipt.clean) == (True, True, True)
    assert trial.acted == 0


def test_a_proxy_that_died_or_a_port_that_is_taken(local):
    gone = "echo 1 > /sys/fs/cgroup/stormcell/faults/fault/cgroup.kill"
    trial = local.attempt({"kind": "dns.fail"}, under=[gone])
    assert trial.receipt.in_force is False
    assert trial.receipt.clean
    local.run("setsid python3 /root/tool.py serve 61001 > /dev/null 2>&1 & echo $! > /tmp/taken")
    local.run(until("ss -Hlun sport = 61001 | grep -q ."))
    trial = local.attempt({"kind": "dns.fail"})
    assert "Address already in use" in trial.stop
    local.run("kill $(cat /tmp/taken)")


def test_an_act_that_was_killed_half_way_is_undone_and_a_lost_mark_ends_the_proxy(local):
    orders = '{"do": "fail", "names": ["*"]}'
    local.run(f"stormcell-guest dns start half 61007 0 '{orders}'")
    assert '"running": true' in local.run("stormcell-guest dns show half")
    for _ in range(2):
        local.run("stormcell-guest dns stop half 61007")
        assert local.run("stormcell-guest dns show half").strip() == '{"running": false, "left": false}'
    local.run(f"stormcell-guest dns start half 61007 0 '{orders}'; rm /run/stormcell/marks/half.background")
    procs = "/sys/fs/cgroup/stormcell/faults/half/cgroup.procs"
    local.run(until(f"! grep -q . {procs}"))
    local.run("stormcell-guest dns stop half 61007")


def test_two_faults_both_have_their_say_and_each_goes_alone(local):
    """The first forwards what the second answers, and makes it late; then it is made less late while it works."""
    slow = faults.parse({"kind": "dns.slow", "delay": "800ms"}).named("first", 1)
    fail = faults.parse({"kind": "dns.fail", "names": "a.test", "rcode": "REFUSED"}).named("second", 2)
    for fault in (slow, fail):
        local.perform(fault.plan().apply)
    both = f"{ask('::1', 'a.test')}; {ask('127.0.0.53', 'b.test', 'A', 'tcp')}"
    said = [told(line) for line in local.run(both).splitlines()]
    assert [words for words, _ in said] == ["5", "0 198.51.100.7"]
    assert 800 <= min(took for _, took in said) < 1600
    local.perform(slow.change(faults.parse({"kind": "dns.slow", "delay": "10ms"})) or ())
    said = [told(line) for line in local.run(f"{both}; {both}").splitlines()]
    assert [words for words, _ in said] == ["5", "0 198.51.100.7"] * 2
    assert min(took for _, took in said[::2]) < 800
    assert min(took for _, took in said[1::2]) < 800
    local.perform(slow.plan().undo)
    assert [told(line)[0] for line in local.run(both).splitlines()] == ["5", "0 198.51.100.7"]
    assert "stormcell_dns_slow_1" not in local.run("nft list ruleset")
    local.perform(fail.plan().undo)
    assert [told(line)[0] for line in local.run(both).splitlines()] == ["0 198.51.100.7"] * 2


def test_nothing_is_left(local):
    assert local.run("nft list ruleset; ls -A /run/stormcell/marks") == ""
    assert local.run("ls -d /sys/fs/cgroup/stormcell/faults 2>/dev/null; ss -Hlntu 'sport >= 61000'") == ""
