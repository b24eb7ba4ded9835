"""From scores to answers: texts, tables of metrics, prediction files."""
