"""Text to token ids and back to places in the text; how SentencePiece models are stored."""
