"""Metrics and logs of requests and connections. (Kafka: RequestMetrics, RequestLogger)"""
