"""Real models by name, from packages that carry them."""
