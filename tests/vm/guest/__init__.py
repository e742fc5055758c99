"""The programs that run inside the machine: the scripts that start it, and pytest's part there."""
