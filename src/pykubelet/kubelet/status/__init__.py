"""What this node reports about its pods."""
