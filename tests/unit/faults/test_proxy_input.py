"""Bad input of the faults that a proxy in the guest carries out: one clear error each."""

import pytest
from pydantic import ValidationError

from stormcell import faults

FAIL = {"kind": "dns.fail"}
WRONG = {"kind": "dns.wrong", "address": "192.0.2.1"}
SLOW = {"kind": "dns.slow", "delay": "1s"}

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
]


@pytest.mark.parametrize(
    ("spec", "said"), WRONG_INPUT, ids=[f"{i}-{said[:30]}" for i, (_, said) in enumerate(WRONG_INPUT)]
)
def test_wrong_input_is_refused_with_a_reason(spec, said):
    with pytest.raises(ValidationError) as refused:
        faults.parse(spec)
    assert said in str(refused.value)
