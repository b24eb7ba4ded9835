"""Examples as arrays: token ids, segments, masks and labels, the inputs of the network."""
