"""Redis for the fixed variant: a help, never a need."""

import time
from collections.abc import Callable
from typing import Any

import redis

ANSWER_SECONDS = 0.5
REST_SECONDS = 5.0


class OptionalCache:
    """A failing cache reads as "not cached". After a failure it is left alone for REST_SECONDS (a circuit breaker)."""

    def __init__(self, url: str) -> None:
        self.redis = redis.Redis.from_url(
            url, decode_responses=True, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
        )
        self.rests_until = 0.0

    def get(self, key: str) -> str | None:
        return self.attempt(lambda: self.redis.get(key))

    def set(self, key: str, value: str, seconds: int) -> None:
        self.attempt(lambda: self.redis.set(key, value, ex=seconds))

    def usable(self) -> bool:
        return self.attempt(self.redis.ping) is not None

    def attempt(self, call: Callable[[], Any]) -> Any:
        if time.monotonic() < self.rests_until:
            return None
        try:
            return call()
        except redis.RedisError:
            self.rests_until = time.monotonic() + REST_SECONDS
            return None
