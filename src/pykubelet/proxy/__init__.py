"""The service proxy: addresses of Services lead to their endpoints, through nftables."""
