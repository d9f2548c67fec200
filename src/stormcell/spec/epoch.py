"""When everything that is to be the same wherever and whenever it is made was made."""

EPOCH = 1_767_225_600
"""2026-01-01 00:00 UTC in seconds since 1970: of an image's files, and of a sealed machine's clock at power-on."""
