"""Files of examples: tables, questions, tagged sentences, read and checked before use."""
