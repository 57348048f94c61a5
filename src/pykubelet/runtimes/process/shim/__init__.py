"""The supervisor of one container: a program of its own, which outlives the agent."""
