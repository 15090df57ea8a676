"""The ECSRL agent: it sends each request somewhere, or rejects it."""
