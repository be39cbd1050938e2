"""AutoMQ's request pipeline, for `socket.server.mode=automq`.

    one connection -> many requests in flight -> the queue of one handler -> responses in request order

`channel` tracks the requests in flight of a connection, `responder` sends their responses in order,
`processor` admits requests until the connection reaches its high watermark, `request_queues` has a queue per
handler under one bound in bytes, `callback_queues` the same for delayed responses, and `handler_pool` the
handlers, each with its own queue. `server_mode` combines them, and throttles connections that exceed a quota
with several requests at once. Other packages do not depend on the mode. (AutoMQ: SocketServer,
RequestChannel, ChannelContext)
"""
