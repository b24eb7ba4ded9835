"""The network; nothing here knows files, records or tasks.

`modeling` is the paper: masks, distances, attention, layers, memory, and the choice of the form in
which attention is computed. `kernels` says what the forms are given; `kernels_tuned` has those with
explicit gradients; `kernels_tpu` attention for TPUs; `kernels_gpu` puts the programs of
`fused_attention` into the graph for an NVIDIA GPU, and `kernels_gpu_check` compares them with the
plain form. `parameters` has the weights, `stateless_random` the random bits, `ops` small
operations, `heads` the summary and the losses, `incremental` decoding.
"""
