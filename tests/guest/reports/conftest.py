"""The public reports of fault injection going wrong: one sandbox a module, as for the faults."""

from tests.guest.engine.conftest import outcome_of
from tests.guest.faults.conftest import _in_own_home, bench, host_is_untouched

__all__ = ["_in_own_home", "bench", "host_is_untouched", "outcome_of"]
