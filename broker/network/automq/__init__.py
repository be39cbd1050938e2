"""AutoMQ's request pipeline, for `socket.server.mode=automq`.

    one connection -> many requests in flight -> the queue of one handler -> responses in request order

`channel` tracks the requests in flight of a connection. `server_mode` has the processor, which admits
requests until the connection reaches its high watermark and sends the responses in order, and the handlers of
this mode. `handler_queues` has a queue per handler for requests, under one bound in bytes, and one for
delayed responses. Other packages do not depend on the mode. (AutoMQ: SocketServer, RequestChannel,
ChannelContext)
"""
