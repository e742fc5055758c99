"""The client of the runtime's CRI socket."""
