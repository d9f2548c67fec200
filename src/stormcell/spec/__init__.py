"""Frozen values and their validation: the vocabulary. Imports nothing of ours."""
