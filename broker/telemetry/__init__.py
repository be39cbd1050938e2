"""Client telemetry (KIP-714): which clients are asked for which metrics, and what they then send.

room            the parts below that others hold
manager         which instances there are, and whether what one of them asks for is in order
instance        one of them, and its two gates
subscription    what an operator writes down: metric prefixes, interval, and which clients it is for
patterns        regular expressions that cannot take longer than their text is
effective       what all subscriptions that match a client come to together
push            pushes that wait for their receivers
payload         OTLP to figures
forwarding      what waits for a collector
receiver        what a receiver of one's own is
latest          what each instance said last
figures         all of it as Prometheus reads it
"""
