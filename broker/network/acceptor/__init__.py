"""The acceptor of a listener and its connection limits: counts, rates, full queues. (Kafka:
SocketServer.Acceptor, ConnectionQuotas)
"""
