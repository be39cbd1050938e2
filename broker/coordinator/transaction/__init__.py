"""The transaction coordinator, without I/O. (Kafka: kafka.coordinator.transaction)

`state` has a transaction and its states, `records` its format in __transaction_state. `coordinator` holds all
of them and applies `initialization` and `ending`, which decide what may happen; `completion` follows the
markers of a decided transaction. `coordinator.transaction_service` writes it all.
"""
