"""The client libraries of the soak, one process a session: `python -m benchmarks.soak.clients`.

A library may lock up the interpreter that it runs in, or end it; that stops one session and not the soak.
`teller` has the lines that a session writes; `librdkafka`, `kafka_python` and `aiokafka_` have the sessions;
`checker` reads what the broker has. None of them knows the ledgers, which the soak keeps
(benchmarks.soak.relay).
"""
