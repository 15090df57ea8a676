"""The serving world: requests on a network of nodes, event-driven and exact. See docs/guides/serving-world.md."""
