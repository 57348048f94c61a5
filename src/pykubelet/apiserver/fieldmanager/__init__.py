"""Who owns which field: managedFields, and server-side apply, which decides by them."""
