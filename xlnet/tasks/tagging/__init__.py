"""Tagging: a tag for each word of a sentence, such as those that mark entities.

1. `files` reads sentences from CoNLL columns and JSON as objects, and divides texts into words.
2. `schemes` reads entities from tags, and writes the tags of entities; it compares predicted
   entities with gold ones, as conlleval and seqeval do.
3. `tags` has the task type: it makes records, the subword tokens of words in windows of long
   sentences; its head predicts the most probable tag of each word.

Shape letters: n sentences, m windows, B records of a batch, W words, T tokens, L tags.
"""
