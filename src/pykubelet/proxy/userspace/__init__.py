"""Relays ports of the machine to Services, where nftables rules of the machine are not ours to change."""
