"""The overlay layer: how the tree changes while messages flow, without routing knowing of it."""
