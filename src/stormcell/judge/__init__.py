"""Events in, verdict out. Never imports engine, faults or machine: a verdict can be recomputed years later."""
