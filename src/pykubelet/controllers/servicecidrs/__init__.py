"""Protects ServiceCIDRs whose addresses are in use."""
