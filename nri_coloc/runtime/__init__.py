"""The runtime's CRI socket, beside NRI."""
