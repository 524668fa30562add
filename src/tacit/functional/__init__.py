"""The field's formulas, each once, pure: tensors in, tensors out, no state."""
