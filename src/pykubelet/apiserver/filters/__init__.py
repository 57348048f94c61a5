"""The handler chain: limits, authentication, impersonation, authorization, metrics and audit."""
