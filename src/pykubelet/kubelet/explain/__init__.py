"""The node agent: sources, pods, workers, references and status."""
