"""The command line: one module per command, which imports what it needs only when it runs."""
