"""Three tenants to look at in the console, one of which wants too much: `make demo`.

__main__.py   the command: what happens when, and a line of figures every few seconds
place.py      the broker that they are let loose on: one of the demo's own, or one that runs already
tenants.py    the greedy one, the polite one, and the one that reconnects in a storm
"""
