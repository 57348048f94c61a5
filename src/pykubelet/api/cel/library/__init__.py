"""Functions of CEL expressions: the standard ones and Kubernetes' own."""
