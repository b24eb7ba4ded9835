"""A trained model as a SavedModel that takes ids or raw text: tokenization inside of the graph."""
