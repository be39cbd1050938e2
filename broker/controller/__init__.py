"""The single path for changes: Kafka's admin APIs, REST and console. (Kafka: the controller)

`commands` are the changes that can be asked for, `plan` turns one into metadata records, `control` checks,
commits and publishes them. `rows` are values that views return.
"""
