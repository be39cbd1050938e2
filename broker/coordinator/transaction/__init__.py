"""The transaction coordinator, without I/O. (Kafka: kafka.coordinator.transaction)

`state` has a transaction and its states, `records` its format in __transaction_state. `coordinator` holds all
of them, applies `changes`, which decide what may happen, and follows the markers of
decided transactions. `coordinator.transaction_service` writes it all.
"""
