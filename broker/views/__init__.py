"""All that the console, REST and alerts read. Read-only, called on demand, independent of pages.

console         `Views`: the parts below, which `server` makes and `webui` reads
parts           the parts of a server that these, /metrics and the task tree read
live_server     the running server: load, connections, tasks
live_quotas     what this server measures of quotas
quota_views     the quotas with their use, here and at other gateways; `quota_rows` makes the rows of rules,
                `resolving` finds the rule that limits a client
topics          topics with their contents, groups and transactions
metadata        the metadata image and its log: settings, tokens, credentials, alert rules, audit trail
readings        how old what a gateway has read of its cluster is
upstream_views  what a gateway adds: its cluster, and the other gateways

Rates are per second; sizes and byte rates in bytes; `_ms` are milliseconds; `_at_ms` and `time_ms` are
wall-clock milliseconds since the epoch; fractions are between 0.0 and 1.0. Quota entities have the form of
`commands.EntityPairs`.
"""
