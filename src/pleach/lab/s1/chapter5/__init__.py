"""S1 §5.6: heuristics that improve the tree, measured with `lab/improve`.

Imports lab/improve/ and core/optimise/.
"""
