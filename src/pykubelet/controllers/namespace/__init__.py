"""The namespace controller: empties and finalizes deleted namespaces."""
