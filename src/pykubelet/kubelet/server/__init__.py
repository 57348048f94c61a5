"""The node's own HTTPS API: what an API server and people who look after the node ask it for."""
