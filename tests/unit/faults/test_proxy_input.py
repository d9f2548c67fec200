"""Bad input of the faults that a proxy in the guest carries out: one clear error each."""

import pytest
from pydantic import ValidationError

from stormcell import faults

FAIL = {"kind": "dns.fail"}
WRONG = {"kind": "dns.wrong", "address": "192.0.2.1"}
SLOW = {"kind": "dns.slow", "delay": "1s"}

FIRST = {"kind": "http.first-byte", "remote_port": 80, "delay": "1s"}
STALL = {"kind": "tls.stall", "remote_port": 443}
CERTIFICATE = {"kind": "tls.certificate", "remote_port": 443, "problem": "expired"}
TRUSTED = {**CERTIFICATE, "trust": "/etc/ca.pem"}

WRONG_INPUT = [
    ({**FAIL, "names": "a b.test"}, "'a b.test' is no name to ask for; write for example db.example.org"),
    ({**FAIL, "names": "a.*.test"}, "is no name to ask for"),
    ({**FAIL, "names": "*a.test"}, "is no name to ask for"),
    ({**FAIL, "names": "-a.test"}, "is no name to ask for"),
    ({**FAIL, "names": "a..test"}, "is no name to ask for"),
    ({**FAIL, "names": ""}, "is no name to ask for"),
    ({**FAIL, "names": f"{'a' * 64}.test"}, "is no name to ask for"),
    ({**FAIL, "names": ["*", "a.test"]}, "'*' is every name; leave the others out"),
    ({**FAIL, "names": ["a.test", "a.test"]}, "the same entry twice"),
    ({**FAIL, "names": 7}, "write one text or a list of them"),
    ({**FAIL, "share": "0%"}, "0% of the queries is no fault"),
    ({**FAIL, "share": "101%"}, "between 0% and 100%"),
    ({**FAIL, "share": 0.5}, "has no unit"),
    ({**FAIL, "rcode": "TIMEOUT"}, "'NXDOMAIN'"),
    ({**FAIL, "delay": "1s"}, "unknown field 'delay'"),
    ({"kind": "dns.wrong"}, "Field required"),
    ({**WRONG, "address": "10.0.0.0/8"}, "'10.0.0.0/8' is a network"),
    ({**WRONG, "address": "other.test"}, "is no address"),
    ({**WRONG, "ttl": -1}, "greater than or equal to 0"),
    ({**WRONG, "ttl": "60"}, "valid integer"),
    ({"kind": "dns.slow"}, "Field required"),
    ({**SLOW, "delay": "0s"}, "between 1ms and 1m"),
    ({**SLOW, "delay": "2m"}, "between 1ms and 1m"),
    ({**SLOW, "jitter": "2s"}, "the jitter (2s) is larger than the delay (1s)"),
    # relays
    ({"kind": "http.first-byte", "delay": "1s"}, "one of 'remote_port' or 'local_port' is needed"),
    ({**FIRST, "local_port": 80}, "'remote_port' and 'local_port' are given"),
    ({**FIRST, "remote_port": 0}, "greater than or equal to 1"),
    ({**FIRST, "address": "web.test"}, "is no address"),
    ({**FIRST, "share": "0%"}, "is no fault"),
    ({**FIRST, "delay": "11m"}, "between 1ms and 10m"),
    ({**FIRST, "jitter": "2s"}, "is larger than the delay"),
    ({**FIRST, "names": "a.test"}, "unknown field 'names'"),
    ({"kind": "http.first-byte", "remote_port": 80}, "Field required"),
    ({"kind": "http.slow-body", "remote_port": 80, "rate": "0B"}, "between 1B and 1GiB"),
    ({"kind": "http.slow-body", "remote_port": 80, "rate": 100}, "has no unit"),
    ({"kind": "http.abort", "remote_port": 80, "after": "-1B"}, "out of range"),
    ({"kind": "http.status", "remote_port": 80, "status": 100}, "greater than or equal to 200"),
    ({"kind": "http.status", "remote_port": 80, "status": 600}, "less than or equal to 599"),
    ({"kind": "http.status", "remote_port": 80, "status": "503"}, "valid integer"),
    ({**STALL, "delay": "0s"}, "between 1ms and 10m"),
    ({**STALL, "names": "*.*.test"}, "is no name to ask for"),
    (CERTIFICATE, "for 'expired' the client must know the authority, or it refuses for another reason"),
    ({**TRUSTED, "ca_key": "/k", "ca_certificate": "/c"}, "give either 'trust', or 'ca_certificate' and 'ca_key'"),
    ({**CERTIFICATE, "ca_key": "/k"}, "'ca_certificate' and 'ca_key' belong together"),
    ({**TRUSTED, "problem": "self-signed"}, "is of no authority that is known; drop 'trust'"),
    ({**TRUSTED, "problem": "revoked"}, "'expired'"),
    ({**TRUSTED, "by": "0s"}, "'by' is between 1s and 3650d"),
    ({**TRUSTED, "trust": "ca.pem"}, "no absolute path"),
    # ports
    ({"kind": "port.ephemeral", "leave": -1}, "greater than or equal to 0"),
    ({"kind": "port.ephemeral", "leave": "10"}, "valid integer"),
    ({"kind": "port.time-wait"}, "Field required"),
    ({"kind": "port.time-wait", "remote_port": 80, "address": "10.0.0.0/8"}, "is no address of one host"),
    ({"kind": "port.time-wait", "remote_port": 80, "count": 1}, "greater than or equal to 2"),
    ({"kind": "port.time-wait", "remote_port": 80, "count": 2001}, "less than or equal to 2000"),
    ({"kind": "port.backlog"}, "Field required"),
    ({"kind": "port.backlog", "local_port": 0}, "greater than or equal to 1"),
    ({"kind": "port.conntrack", "max": 0}, "greater than or equal to 1"),
    ({"kind": "port.conntrack", "max": True}, "valid integer"),
    ({"kind": "entropy.starve"}, "neither getrandom nor /dev/random blocks"),
]


@pytest.mark.parametrize(
    ("spec", "said"), WRONG_INPUT, ids=[f"{i}-{said[:30]}" for i, (_, said) in enumerate(WRONG_INPUT)]
)
def test_wrong_input_is_refused_with_a_reason(spec, said):
    with pytest.raises(ValidationError) as refused:
        faults.parse(spec)
    assert said in str(refused.value)
