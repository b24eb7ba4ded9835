"""Metrics over a whole split: of labels and scores, of entities, of spans."""
