"""Backbones and heads: images or features to logits."""
