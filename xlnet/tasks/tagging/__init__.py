"""Tagging: a tag for each word of a sentence, such as those that mark entities.

1. `files` reads sentences from CoNLL columns and JSON, and writes them again with predictions.
2. `words` has a sentence, and divides a text into words.
3. `schemes` says how tags mark entities, and which sequences of tags are legal.
4. `windows` makes records: the subword tokens of words, and windows of long sentences.
5. The head in `tags` predicts the most probable legal sequence of tags.
6. `scores` compares predicted entities with gold ones, as conlleval and seqeval do.

`tags` has the task type. Shape letters: n sentences, m windows, B records of a batch, W words, T
tokens, L tags.
"""
