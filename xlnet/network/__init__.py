"""The network, in the order of the paper.

`modeling` says what a position sees, how
distances enter, what a layer does, and sums sequences up; `attention`, `ops` and `noise` have
its parts with their gradients written out; `heads` has the losses.
"""
