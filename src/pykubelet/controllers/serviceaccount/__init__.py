"""The service account controller: keeps a `default` account in every namespace."""
