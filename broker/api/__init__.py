"""One file per API key: `aNN_name.py` handles the requests of the API with the key NN. The share
coordinator's APIs, 83 to 87, are one file, and each handler there has its own header.

`registry` has the handler, the versions and the role of each. The packages have what several handlers share;
`requests` is below all of them.
"""
