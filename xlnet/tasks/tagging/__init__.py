"""Tagging: a tag for each word of a sentence, such as those that mark entities.

1. `sentences` reads sentences from CoNLL columns and JSON as objects, divides texts into words,
   reads entities from tags and writes their tags, and compares predicted entities with gold ones,
   as conlleval and seqeval do.
2. `tags` has the task type: it makes records, the subword tokens of words in windows of long
   sentences; its head predicts the most probable tag of each word.

Shape letters: n sentences, m windows, B records of a batch, W words, T tokens, L tags.
"""
