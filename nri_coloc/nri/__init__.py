"""The runtime on the wire: multiplexer, session, messages and versions of NRI, without I/O."""
