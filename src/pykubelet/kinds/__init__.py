"""The API kinds: names, defaults, validation, update rules, warnings and table columns of each, as pure functions."""
