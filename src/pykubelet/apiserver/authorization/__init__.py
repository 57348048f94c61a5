"""Access: who asks (certificates, tokens), and what they may do (RBAC, Node authorizer)."""
