"""Requests whose answers are compared with Kafka's: valid ones, and those that a broker refuses."""
