"""Acts that are no plain command of Linux, as subcommands of the guest file. Each does one thing and prints JSON."""
