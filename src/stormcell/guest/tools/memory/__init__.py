"""Memory held, run out of, swapped and cached. Limits are the cgroup tool's."""
