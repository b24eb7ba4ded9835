"""Ranking: documents sorted for queries, learned from pairs of documents of different relevance.

A row is a document of a query. Its label is the relevance: 0 is not relevant, higher is better.
`ranking` reads tables and TREC's judgements and runs, and has the task type; `measures` has the
measures of orders.

What is counted for which query, as by trec_eval:

- A query without any judgement is left out of all means.
- One with judgements and without a relevant document counts as 0. If no query has one, metrics are
  undefined.
- The denominators of recall and MAP, and the ideal order of NDCG, have all judged documents, also
  those that a run does not have.
- Documents of equal scores are in the order of their names, the last one first.

Shape letters: n rows, Q queries, m documents of one query.
"""
