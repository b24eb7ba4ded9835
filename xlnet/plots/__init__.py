"""Plots: pretraining records (`inspection` as text and counts, `figures` as figures), attention."""
