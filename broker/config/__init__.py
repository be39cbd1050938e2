"""The broker's configuration.

In reading order: `sections` and `listeners` (what can be configured), `setting` and `kinds` (how a key is
declared), `table` (all keys), `load` (from the file, the command line and the `environment` to sections),
`unknown_keys` (what is no key, and why), `reference` (generates docs/configuration.md).
"""
