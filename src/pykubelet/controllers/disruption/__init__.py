"""How many pods may be disrupted at once: the status of disruption budgets."""
