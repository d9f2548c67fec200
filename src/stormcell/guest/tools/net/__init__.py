"""Packets and what carries them: devices, queues, addresses, nftables, connections."""
