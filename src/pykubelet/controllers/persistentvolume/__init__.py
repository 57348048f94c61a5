"""The controllers of persistent volumes: binding, reclaim, protection, ephemeral volumes."""
