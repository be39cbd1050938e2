"""One file per API key: `aNN_name.py` handles the requests of the API with the key NN.

`registry` has the handler, the versions and the role of each. The packages have what several handlers share;
`requests` is below all of them.
"""
