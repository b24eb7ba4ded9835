"""What records hold, to look at: `inspection` as text, `pictures` as images."""
