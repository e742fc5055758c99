"""The running daemon: threads, sockets and files around the decisions of the other rooms."""
