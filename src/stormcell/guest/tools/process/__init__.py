"""Processes killed, stopped, signalled, piled up, or refused what they ask for."""
