"""Authentication and secrets, independent of sockets and requests; the time is an argument.

Kafka clients: `plain`, `scram` with `unknown_users`, `session` (re-authentication), `tls`, and the user name
of a certificate (`distinguished_name`, `principal_rules`). The console: `passwords`, `tokens`,
`console_links`.
"""
