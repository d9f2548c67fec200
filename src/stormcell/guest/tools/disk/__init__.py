"""File systems and their devices as users have them: room, quotas, rights, throughput."""
