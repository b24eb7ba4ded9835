"""Small architectures."""


def sizes(layers, width, heads, inner):
    """The settings of a network, but for its vocabulary; the heads share the width."""
    return dict(
        n_layer=layers,
        d_model=width,
        n_head=heads,
        d_head=width // heads,
        d_inner=inner,
        ff_activation="gelu",
        untie_r=True,
    )
