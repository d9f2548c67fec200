"""What every tier needs."""

import signal

# a shell that starts the tests in the background lets them ignore SIGINT, and every program they start as well
signal.signal(signal.SIGINT, signal.default_int_handler)
