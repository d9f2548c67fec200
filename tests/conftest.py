"""What every tier needs."""

import signal

from hypothesis import HealthCheck, settings

# many suites share the cores of a small machine: how long an example takes says nothing about it
settings.register_profile("stormcell", deadline=None, suppress_health_check=(HealthCheck.too_slow,))
settings.load_profile("stormcell")

# a shell that starts the tests in the background lets them ignore SIGINT and SIGQUIT, nohup SIGHUP, and every program
# that they start as well
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
