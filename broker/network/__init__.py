"""From sockets to requests, and from answers to sockets. (Kafka: kafka.network and common.network)

    accepting     a port, and what a connection passes before a processor has it
    connection    one connection: bytes in and out, muted or not, and its end
    memory        a bound on the bytes of requests (KIP-72)
    tls           the same connection, encrypted
    handling      the request, its queue, its route, its handler
    measuring     what all of it costs
    automq        AutoMQ's way from a socket to a handler and back

`socket_server` keeps listeners and planes, which `assembly` puts together, and `server_resources` what the
broker's listeners and the controller's each have to themselves; `processor`, with its `selector`
and its `responder`, is the loop that everything else hangs on, and `throttling` holds connections that are
over a quota.
"""
