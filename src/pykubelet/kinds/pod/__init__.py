"""Pod, one module per part of its rules."""
