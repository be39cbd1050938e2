"""Authentication and secrets. Pure: sockets and requests are the callers', the time is an argument.

Kafka clients: `plain`, `scram` with `unknown_users`, `session` (re-authentication); `tls`, and a certificate's
user name (`distinguished_name`, `principal_rules`). The console: `passwords`, `tokens`, `console_links`.
"""
