"""A language model of ours as Triton serves it: text in, text with its tokens and their probabilities out."""
