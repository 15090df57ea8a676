"""Trains policies in the worlds. torch is imported here only, and only when something is trained."""
