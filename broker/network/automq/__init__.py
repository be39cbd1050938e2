"""AutoMQ's way from a socket to a handler and back, for `socket.server.mode=automq`.

    one connection -> many requests in hand -> the queue of one handler -> answers in the requests' order

`channel` knows which requests of a connection are in hand, `responder` lets their answers leave in turn,
`processor` admits requests until the connection has enough of them, `request_queues` is a queue per handler
under one bound in bytes (`size_semaphore`), `callback_queues` the same for answers that had to wait,
`handler_pool` the handlers, each with its own queue, and
`throttling` holds connections that may be over a quota with several requests at once. `machinery` ties them
together. Nothing outside of this room knows which mode it is in. (AutoMQ: SocketServer, RequestChannel,
ChannelContext)
"""
