"""A gateway that is drained: its clients move to the other gateways, one connection after the other.

    pacing      which connections end when: pure
    elsewhere   the addresses of the live gateways
    moves       when a client that produces may learn them
    drain       the state of the gateway, and the task that ends connections

`node_ports` returns the addresses of `elsewhere` from the beginning of a drain on, so every answer with
addresses has them. `processor.GatewayResponder` ends one connection between two requests. What is left in the
end is closed by the drain of every stop, within shutdown.drain.timeout.ms (`broker.server.app`).
"""
