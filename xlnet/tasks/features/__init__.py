"""Examples as arrays: token ids, segments, masks and labels, as the network takes them."""
