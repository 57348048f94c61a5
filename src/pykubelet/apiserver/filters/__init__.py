"""HTTP around the server: connections, the order of a request, and everything that is no resource."""
