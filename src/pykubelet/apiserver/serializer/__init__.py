"""What a client sent: paths, parameters, bodies, patches."""
