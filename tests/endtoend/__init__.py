"""Real clients, real sockets, real seconds."""
