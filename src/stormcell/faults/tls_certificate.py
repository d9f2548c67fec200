"""`tls.certificate`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from stormcell.faults._fields import GuestPath, shown
from stormcell.faults._reading import mapping, numbers
from stormcell.faults._redirect import NAT
from stormcell.faults._relay import NamedTls
from stormcell.spec.fault import GUEST, Act, Command, Reading
from stormcell.spec.units import Duration

DAY = 86_400.0
_AT_FAULT = ("expired", "not-yet-valid", "wrong-name")


class TlsCertificate(NamedTls):
    """TLS clients are shown a bad certificate in place of the server's.

    Only what was asked for is wrong with it: for `expired`, `not-yet-valid` and `wrong-name` the client must know the
    authority that signed it, which is either your own (`ca_certificate` and `ca_key`) or one of the fault's that it
    adds to a file of the client's (`trust`) and takes out again. A client that accepts the certificate is served by
    the real server, and the receipt says so.
    """

    kind = "tls.certificate"
    needs = NAT
    counts = "clients that were shown the certificate and answered: with an alert, by leaving, or by accepting it"
    proves = "the alert that the client sent, by its number, and the counters of the redirections"
    example: ClassVar[dict[str, Any]] = {
        "kind": "tls.certificate", "remote_port": 443, "problem": "expired",
        "trust": "/etc/ssl/certs/ca-certificates.crt",
    }  # fmt: skip

    problem: Literal["expired", "not-yet-valid", "wrong-name", "untrusted", "self-signed"]
    """What is wrong with it. `untrusted`: its authority is one that nobody knows."""
    by: Duration = DAY
    """How long ago it expired, or how far off its first day is; 1s to 10 years."""
    ca_certificate: GuestPath | None = None
    """A PEM file in the guest: the certificate of an authority that the client trusts."""
    ca_key: GuestPath | None = None
    """A PEM file in the guest: its RSA or P-256 key, without a passphrase."""
    trust: GuestPath | None = None
    """A PEM file in the guest from which the client reads its authorities when it connects."""

    @model_validator(mode="after")
    def _sensible(self) -> TlsCertificate:
        if (self.ca_certificate is None) != (self.ca_key is None):
            raise ValueError("'ca_certificate' and 'ca_key' belong together; give both or none")
        ways = [name for name, given in (("trust", self.trust), ("ca_key", self.ca_key)) if given]
        if self.problem in _AT_FAULT and len(ways) != 1:
            raise ValueError(
                f"for '{self.problem}' the client must know the authority, or it refuses for another reason: "
                "give either 'trust', or 'ca_certificate' and 'ca_key'"
            )
        if self.problem not in _AT_FAULT and ways:
            raise ValueError(f"a certificate that is {self.problem} is of no authority that is known; drop '{ways[0]}'")
        if not 1 <= self.by <= 3650 * DAY:
            raise ValueError(f"{shown(self.by)} is out of range; 'by' is between 1s and 3650d")
        return self

    @property
    def does(self) -> str:
        """Show."""
        return "certificate"

    def amounts(self) -> dict[str, Any]:
        """Whom, and what is wrong."""
        issuer = [self.ca_certificate, self.ca_key] if self.ca_certificate else []
        return {"names": list(self.names), "delay": self.by, "problem": self.problem, "issuer": issuer,
                "trust": self.trust or ""}  # fmt: skip

    def plan(self) -> Act:
        """And trust, undone."""
        act = super().plan()
        if self.trust is None:
            return act
        nft, show = act.read
        return Act(
            apply=act.apply,
            undo=(*act.undo, Command(argv=(GUEST, self.tool, "distrust", self.id, self.trust))),
            read=(nft, Command(argv=(*show.argv, self.trust), name=show.name)),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """And our authority is trusted, if that was asked for."""
        trusted = [mapping(reading, "proxy").get("trusted") for reading in (before, during)]
        return super().in_force(before, during) and trusted == [False, self.trust is not None]

    def clean(self, before: Reading, undone: Reading) -> bool:
        """And trusted no longer."""
        return super().clean(before, undone) and mapping(undone, "proxy").get("trusted") is False

    def change(self, to: Any) -> None:
        """A certificate is made when the fault begins."""

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """A client that accepts a bad certificate is a finding."""
        outcomes = numbers(mapping(after, "proxy").get("outcomes"))
        accepted = sum(count for how, count in outcomes.items() if how.startswith("ACCEPTED"))
        said = [f"a client does not verify certificates: it accepted one that is {self.problem}"] if accepted else []
        return (*said, *super().notes(before, during, after))

    def cannot_know(self) -> tuple[str, ...]:
        """Trust that was read before."""
        read = "a client that read its authorities before the act does not know that of the fault, and refuses for that"
        return (
            *super().cannot_know(),
            "a connection that does not begin with a TLS hello passes, also one that turns to TLS later (STARTTLS)",
            *([read] if self.trust else []),
        )
