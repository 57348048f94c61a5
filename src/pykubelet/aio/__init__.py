"""Time, tasks, queues and logs: what every layer above stands on."""
