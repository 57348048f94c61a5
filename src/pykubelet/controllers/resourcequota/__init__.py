"""The controller of ResourceQuotas: their status, and what makes it change."""
