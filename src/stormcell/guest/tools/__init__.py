"""Acts that are no plain command of Linux, as subcommands of the guest file. Each does one thing and prints JSON.

A folder is a family: its `tool.py` serves the subcommand of the family's name, others are named as their subcommand or
as what they know. What several families use lies beside the folders.
"""
