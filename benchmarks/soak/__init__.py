"""A broker under a mixed load with faults, for minutes or days: `make soak`, or `python -m benchmarks.soak`.

`run` starts a broker (`broker_life`) and every kind of client, and disturbs both (`faults`). Client libraries
run in processes of their own (`clients`, `sessions`), and `relay` writes what they tell into the ledgers:
`ledger` keeps what was acknowledged, and finds what is not where it was acknowledged; `group_ledger` does so
for groups, and `quota_changes` for quotas. `anomalies` explains errors by the faults that caused them;
`report` has the verdict.
"""
