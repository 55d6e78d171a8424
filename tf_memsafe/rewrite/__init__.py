"""Rules that put better nodes in the place of others; they know nothing of splitting."""
