"""What leaves the broker about the broker: the Prometheus page, alerts, event topics and OTLP export."""
