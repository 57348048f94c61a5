"""What a person asks of an API server: a station for each command, without a word of its output."""
