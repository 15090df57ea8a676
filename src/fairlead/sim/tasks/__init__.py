"""The world of tasks: placement and elastic allocation over clusters (TapFinger)."""
