"""What users import in their tests: virtual time, short builders, an API in memory, faults."""
