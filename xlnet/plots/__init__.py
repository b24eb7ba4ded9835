"""Plots: pretraining records (`inspection` as text and counts, `pictures` as figures), attention,
curves, embeddings."""
