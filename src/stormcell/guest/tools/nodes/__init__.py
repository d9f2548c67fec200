"""Makes the nodes of an experiment."""
