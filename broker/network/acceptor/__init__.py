"""From a listening port to a processor's door, and what a connection has to pass on the way: numbers,
rates, a full queue. (Kafka: SocketServer.Acceptor, ConnectionQuotas)
"""
