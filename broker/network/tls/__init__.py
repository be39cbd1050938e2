"""TLS over memory, as a transport beside the plain socket. (Kafka: SslTransportLayer)"""
