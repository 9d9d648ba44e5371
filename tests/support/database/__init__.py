"""Databases that are copied, restored, cut off, pooled or made to fail."""
