"""Requests, the request channel, routes and handlers. (Kafka: RequestChannel, KafkaRequestHandlerPool)"""
