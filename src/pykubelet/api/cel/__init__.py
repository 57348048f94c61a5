"""CEL, the Common Expression Language: parser, checker, interpreter and Kubernetes' libraries."""
