"""ttrpc for Python, without I/O: frames, calls and their states. It imports nothing else of this project."""
