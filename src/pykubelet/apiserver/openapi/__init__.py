"""What the server publishes about its kinds for explain, apply and validation."""
