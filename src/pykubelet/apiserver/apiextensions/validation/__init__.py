"""Validation of CustomResourceDefinitions, loaded when the first one is written."""
