"""Public helpers for tests: virtual time, object builders, API servers in memory, faults."""
