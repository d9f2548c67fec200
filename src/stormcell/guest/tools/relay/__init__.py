"""Connections of HTTP and TLS: the relay that stands in front of the real servers."""
