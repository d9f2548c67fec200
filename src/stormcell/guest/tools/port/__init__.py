"""Ports, queues of listening sockets, the table of connections."""
