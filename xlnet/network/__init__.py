"""The network; nothing here knows files, records or tasks.

`modeling` is the paper: masks, distances, layers, memory. `kernels` has the plain form of attention
and the other parts of a layer, `kernels_tuned` the tuned forms with explicit gradients,
`parameters` the weights, `stateless_random` the random bits, `heads` summary and losses,
`incremental` decoding.
"""
