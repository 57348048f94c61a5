"""The server's certificates, keys and kubeconfigs."""
