"""What the client commands do; imported when a command runs."""
