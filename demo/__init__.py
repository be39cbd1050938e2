"""Five tenants to look at in the console, three of which want too much: `make demo`.

__main__.py   the command: what happens when, and a line of figures every few seconds
pictures.py   the pictures of docs/console.md, taken of all this
invented.py   tables of a month for the pictures of Insights
quota_pictures.py   the pictures of docs/quotas-explained.md, without a broker
scene.py      the tenants together, their topic, their limits, and what they are asked to tell
place.py      the broker that they are let loose on: one of the demo's own, or one that runs already
tenants.py    one that waits, some that do not, a group that reads, and one that reconnects in a storm
"""
