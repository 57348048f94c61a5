"""The TTL-after-finished controller: deletes finished Jobs."""
