"""Figures (PNG) of masks, attention and learning curves, and pretraining records as text."""
