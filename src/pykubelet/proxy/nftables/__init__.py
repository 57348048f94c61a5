"""Services as nftables rules: what belongs into the tables, and how it gets there."""
