"""TapFinger's agents: placement and elastic allocation over clusters."""
