"""Exports a trained model as a SavedModel for ids or raw text, tokenized in the graph."""
