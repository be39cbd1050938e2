"""The network layer: sockets to requests, responses to sockets. (Kafka: kafka.network and common.network)

    acceptor      listening sockets and connection limits, applied before a processor takes a connection
    connection    one connection: receive, send, mute state, authentication
    memory        bounds the bytes of requests in memory (KIP-72)
    tls           TLS for a connection
    handling      requests, the request channel, routes and handlers
    metrics       request, selector and client metrics
    automq        AutoMQ's request pipeline

`socket_server` owns the listeners and planes that `server_factory` builds; `server_resources` holds what the
broker's and the controller's listeners do not share. `processor`, with its `selector` and its `responder`, is
the reactor. `throttling` mutes connections that exceed a quota.
"""
