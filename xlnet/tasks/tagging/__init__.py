"""Tagging: a tag for each word of a sentence, such as those that mark entities.

1. `files` reads sentences from CoNLL columns and JSON, divides texts into words, and writes
   sentences again with predictions.
2. `schemes` says how tags mark entities, and which sequences of tags are legal; it compares
   predicted entities with gold ones, as conlleval and seqeval do.
3. `tags` has the task type: it makes records, the subword tokens of words in windows of long
   sentences; its head predicts the most probable legal sequence of tags.

Shape letters: n sentences, m windows, B records of a batch, W words, T tokens, L tags.
"""
