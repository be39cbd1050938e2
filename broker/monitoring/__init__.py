"""Monitoring of the broker itself: the Prometheus page, alerts, event topics and OTLP export."""
