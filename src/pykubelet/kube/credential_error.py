"""The one error of everything that finds out who we are."""


class CredentialError(Exception):
    """Credentials cannot be had; the message names file and field, never a secret."""
