"""The manifest controller of `pykubelet up`: applies the manifests on disk, except pods."""
