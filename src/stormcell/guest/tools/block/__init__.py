"""Block devices under the data volumes: the tables that a fault swaps."""
