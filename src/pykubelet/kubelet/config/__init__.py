"""Where pods come from: files, a URL, an API server; merged into one stream."""
