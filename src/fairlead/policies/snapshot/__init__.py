"""Candidate records and their exclusions: one builder for the simulator, the gateway and the controller."""
