"""What this node says of itself: that it is there, how it is, that it still lives."""
