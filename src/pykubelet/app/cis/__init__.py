"""The CIS benchmark for a node: what is asked for, what is so, and what to do about it."""
