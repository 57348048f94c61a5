"""What expressions can call: the functions of CEL and those that Kubernetes adds."""
