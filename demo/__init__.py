"""A greedy tenant and a polite one on a broker of their own, to look at in the console: `make demo`.

__main__.py   the command: broker, topic, tenants, and a line of figures every few seconds
tenants.py    one tenant: a paced producer in a thread, counting what got through and what it was told to wait
"""
