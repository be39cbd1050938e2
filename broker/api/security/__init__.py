"""Logins of Kafka clients, and what they may do."""
