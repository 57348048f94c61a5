"""What the server does with every object, whatever its kind."""
