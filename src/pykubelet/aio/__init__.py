"""Time, tasks, queues and logs: the foundation of all other layers."""
