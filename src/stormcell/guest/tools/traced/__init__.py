"""System calls held or changed in the threads that make them, by ptrace(2)."""
