"""S3 §4, §5: a tree kept by a ring."""
