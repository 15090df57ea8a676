"""What trainings have in common: folders, checkpoints, validation, curves, bundles."""
