"""The network, in the order of the paper; nothing here knows files, records or tasks.

`modeling` says what a position sees, how distances enter, what a layer does, and sums sequences up;
`attention`, `ops` and `noise` have its parts with their gradients written out; `heads` has the
losses.
"""
