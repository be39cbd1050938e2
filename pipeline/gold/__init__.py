"""What an operator asks. Every file is pure functions of silver tables: frames in, a frame out.

`usage`, `throttling`, `latency` and `client_metrics` by minute; `limits` what held when, and how much of it
was used; `people` who stands out: offenders, storms, borrowed names; `obedience` who waits as it is told;
`advice` what a quota should be.
"""
