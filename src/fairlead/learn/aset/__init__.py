"""The ASET agent: it picks the rule of each window."""
