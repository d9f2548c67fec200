"""Processors burned and taken away. Quotas are the cgroup tool's."""
