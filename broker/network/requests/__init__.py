"""Requests, their queue, routes, times and metrics. (Kafka: RequestChannel, RequestMetrics, RequestLogger)"""
