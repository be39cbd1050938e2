"""Views of a gateway: its own clients and usage, as other gateways see them, and the upstream cluster."""
