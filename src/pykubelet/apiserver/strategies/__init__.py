"""The rules that differ from kind to kind: pure functions on documents."""
