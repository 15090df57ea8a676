"""What a model costs: its layers, arithmetic, weights and memory. Needs no accelerator and no torch."""
