"""The network of pods on this machine, below the runtimes, the API server, the proxy and DNS."""
