"""The namespace controller: empties and finalizes deleted namespaces, for API servers that do not do so themselves."""
