"""System calls answered in the kernel's place, for what is started under a filter."""
