"""Session tokens: signed claims that need no table of sessions."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable

from web import Refused


class Tokens:
    """`clock` decides when a session ends: it gives seconds, from any origin."""

    def __init__(self, secret: str, clock: Callable[[], float]) -> None:
        self.secret = secret.encode()
        self.clock = clock

    def issue(self, customer: str, seconds: int) -> str:
        claim = json.dumps({"customer": customer, "expires": self.clock() + seconds}).encode()
        return base64.urlsafe_b64encode(claim).decode() + "." + self.sign(claim)

    def customer(self, token: str) -> str:
        encoded, _, signature = token.partition(".")
        try:
            claim = base64.urlsafe_b64decode(encoded)
        except ValueError:
            raise Refused(401, "log in first") from None
        if not hmac.compare_digest(signature.encode(), self.sign(claim).encode()):
            raise Refused(401, "log in first")
        said = json.loads(claim)
        if self.clock() > said["expires"]:
            raise Refused(401, "the session has expired")
        return str(said["customer"])

    def sign(self, claim: bytes) -> str:
        return hmac.new(self.secret, claim, hashlib.sha256).hexdigest()
