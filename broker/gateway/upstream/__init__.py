"""The upstream cluster: its nodes, connections to them, and the gateway's own requests.

errors       UpstreamError, with a reason; when to try again
security     TLS and credentials for upstream connections
tcp          host names, and TCP connections to them
frames       whole frames over a transport
principals   the credentials of clients' upstream connections; `mapped` and `tokens` have each client's own
login        the gateway's logins, at first and again
connect      opens a connection: TCP, TLS, login
connection   one pipelined connection for the gateway's own requests
client       requests to a node, or to any node
conditions   the states of nodes and of the cluster, and one log line for each change
cluster      the nodes of the cluster, kept fresh
identity     the cluster's id, on disk
"""
