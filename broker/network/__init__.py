"""The network layer: sockets to requests, responses to sockets. (Kafka: kafka.network and common.network)

Each line imports only lines below it; an import contract in pyproject.toml has the same order.

    server_metrics                  metrics of a socket server
    socket_server, automq           the listeners and planes of a server; AutoMQ's request pipeline
    server_factory                  builds them, of the classes of a mode; what the broker's and the
                                    controller's listeners do not share
    listener                        one listener: its acceptor and processors
    acceptor                        listening sockets, and limits before a processor takes a connection
    handling                        the tasks that handle requests
    processor                       the reactor: from frames to requests
    handshakes                      TLS handshakes of new connections
    responder, unsendable           the reactor: responses to sockets
    throttling                      mutes connections that exceed a quota
    authentication, unauthenticated, leased_receive
                                    logins, limits before them, and request memory (KIP-72)
    requests                        requests, the request channel, routes, request times and metrics
    observers, selector             observers of connections; the open connections of a processor
    connection, memory_pool         one connection: receive, send, TLS, mute state; request memory
    metadata_writer                 commits changes of the metadata
    clock, failures, reaper, supervisor
                                    time, exceptions, deadlines, and the tree of tasks
"""
