"""Node pressure: measures the machine, reports conditions, reclaims disk space and evicts pods."""
