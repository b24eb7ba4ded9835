"""From scores to predictions: texts, tables of metrics, prediction files."""
