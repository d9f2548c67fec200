"""Name service: the proxy that stands in front of the real one."""
