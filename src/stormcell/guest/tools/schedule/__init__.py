"""The scheduler, disturbed by a seed."""
