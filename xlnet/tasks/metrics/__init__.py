"""Metrics over a split: of labels and scores, of spans, of entities; confusion matrices."""
