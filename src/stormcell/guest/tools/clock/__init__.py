"""The clocks, who sets them, and the time zone."""
