"""The work of the client commands; imported when a command runs."""
