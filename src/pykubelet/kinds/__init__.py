"""The API kinds: names, defaults, validation, update rules, warnings and columns, as pure functions."""
