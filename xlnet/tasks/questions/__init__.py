"""Questions with a span of a text as their answer, or without an answer, as in SQuAD and CMRC.

How an answer's start and end become positions, and positions an answer:

1. `Spans` in `spans` reads questions; `answers.position_of` finds the characters of an answer in
   its context.
2. `Spans.encode` makes records: overlapping windows of the context's tokens, each token with its
   first and last character. The positions of an answer are those of the tokens that have its
   characters; where a window does not have all of them, both are that of <cls>. `Spans.outputs`
   are S starts and E ends for each, with the characters of these tokens. A span counts in the
   window in which it has the most context. `Spans.join` sorts the spans of all windows of a
   question, and `Spans.results` cuts texts out of the context.
3. `answers` compares the best text with the gold answers, as the official scripts do.

Shape letters: n rows (questions), m records (windows), B records of a batch, T tokens, S starts and
E ends for each start in the beam, D width.
"""
