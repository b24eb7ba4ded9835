"""Text to token ids and back to positions in the text; how SentencePiece models are stored."""
