"""The DaemonSet controller: runs one pod of a set on every matching node."""
