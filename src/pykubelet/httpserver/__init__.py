"""The HTTP stack of all servers: requests, responses, limits, TLS, upgrades, and a small client."""
