"""Figures (PNG) of masks, attention and learning curves."""
