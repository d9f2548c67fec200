"""Single files: taken away, locked, and the calls that name them counted."""
