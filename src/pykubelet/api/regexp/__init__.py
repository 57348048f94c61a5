"""Go's regular expressions, matched in linear time."""
