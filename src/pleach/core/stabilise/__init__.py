"""Self-stabilising routing: tables become correct again after any fault that changed them (S1 chapter 3).

Imports overlay/ (seam, context) and routing/.
"""
