"""Records for the eye: `inspection` as text and counts, `pictures` as images.

Nothing is drawn anew: windows, targets and orders are those that the trainer gets.
"""
