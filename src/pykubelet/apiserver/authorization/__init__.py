"""Authorization: RBAC, the Node authorizer, and the default roles."""
