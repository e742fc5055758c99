"""Our side of containerd's CRI socket: listing, and the relay that carries updates without a deadlock."""
