"""What can be done with every kind: one path, with the kind's rules as small functions on the way."""
