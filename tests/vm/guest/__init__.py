"""What runs inside the machine: the scripts that start it, and pytest's part there."""
