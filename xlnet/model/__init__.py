"""The network; nothing here knows files, records or tasks.

`modeling` is the paper: masks, distances, attention, layers, memory. `kernels` says what a layer's
kernels are given and has the plain form of all but attention; `kernels_tuned` has the tuned forms,
with explicit gradients; `kernels_tpu` attention for TPUs. `layer_graph` puts the layers into
TensorFlow's graph: one by one, as a function of all, or as a loop. `parameters` has the weights,
`stateless_random` the random bits, `heads` the summary and the losses, `incremental` decoding.
"""
