"""Authentication and secrets, independent of sockets and requests; the time is an argument.

Kafka clients: `sasl` with its mechanisms `plain`, `scram` with `unknown_users`, and `oauthbearer` with
`access_tokens` and `issuer_keys`; `tls`, and the user name of a certificate (`principal_rules`). The console:
`passwords`, `console_links`.
"""
