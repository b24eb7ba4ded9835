"""Operations, bytes and messages of a step, from the configuration alone.

Shape letters as in `xlnet.model.modeling`; `config` is a dict with its keys. Counts only what
grows with the model: matmuls, and the tensors that the backward pass needs.
"""

FLOAT = 4  # bytes


def widths(config):
    """D, N·H and F."""
    return config["d_model"], config["n_head"] * config["d_head"], config["d_inner"]


def parameters(config):
    """Weights of the network, the biases of the language model's softmax included."""
    d, heads, f = widths(config)
    layer = 5 * d * heads + 2 * d * f + f + d + 4 * d
    biases = 5 * heads
    if not config["untie_r"]:
        biases = 2 * heads + 3 * heads / config["n_layer"]
    return config["n_layer"] * (layer + biases) + config["n_token"] * (d + 1) + d


def query_rows(config, work, layer):
    """(content rows, targets) of a layer, per example: above the last keys only the targets are
    left."""
    is_last = layer == config["n_layer"] - 1
    return (0 if work.targets and is_last else work.length), work.targets


def forward_operations(config, work):
    """Floating-point operations of matmuls, by part; a multiply-add is two."""
    d, heads, f = widths(config)
    b, keys = work.batch, work.memory + work.length
    parts = dict.fromkeys(("projections", "attention", "feed-forward", "softmax"), 0.0)
    for layer in range(config["n_layer"]):
        content, targets = query_rows(config, work, layer)
        rows = content + targets
        parts["projections"] += (
            2 * d * heads * (2 * b * rows + 2 * b * keys + keys + work.length)
        )
        scores = 2 * rows * keys + rows * (keys + work.length)
        parts["attention"] += 2 * b * heads * scores
        parts["feed-forward"] += 4 * b * rows * d * f
    parts["softmax"] = 2.0 * b * work.targets * d * config["n_token"]
    return parts


def step_operations(config, work, recompute=False):
    """Operations of a step: the backward pass has two matmuls for each of the forward pass, except
    for keys and values of the memory, where only the kernels have a gradient. The softmax over the
    vocabulary is not computed again."""
    parts = forward_operations(config, work)
    forward = sum(parts.values())
    if work.kind == "infer":
        return forward
    heads = config["n_head"] * config["d_head"]
    of_memory = (
        config["n_layer"] * 4 * work.batch * work.memory * config["d_model"] * heads
    )
    again = forward - parts["softmax"] if recompute else 0
    return 3 * forward + again - of_memory


def layer_activations(config, work, layer, size=FLOAT):
    """Bytes that the backward pass of a layer needs; `size` of a number in the compute dtype."""
    d, heads, f = widths(config)
    b, keys = work.batch, work.memory + work.length
    content, targets = query_rows(config, work, layer)
    rows = content + targets
    narrow = (
        size * (5 * d + 5 * heads) + 2 * d
    )  # inputs, norms, q, heads; what dropout kept
    wide = size * f + f  # before GELU; what dropout kept
    shared = size * (keys * (d + 2 * heads) + (keys + work.length) * heads)
    scores = size * config["n_head"] * rows * keys
    return b * (rows * (narrow + wide) + shared + scores)


def activations(config, work, recompute=False, size=FLOAT):
    """Bytes kept between forward and backward pass, and in the layer that is at work."""
    layers = []
    for layer in range(config["n_layer"]):
        layers.append(layer_activations(config, work, layer, size))
    loss = 3 * FLOAT * work.batch * work.targets * config["n_token"]
    if not recompute:
        return sum(layers) + loss
    rows = work.batch * (work.length + work.targets)
    return len(layers) * rows * config["d_model"] * size + max(layers) + loss


def state_bytes(config):
    """Weights, gradients and Adam's two moments, all float32."""
    return 4 * FLOAT * parameters(config)
