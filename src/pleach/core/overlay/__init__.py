"""The overlay layer: how the tree changes while messages flow, without routing knowing of it.

seam.py and context.py are the interface between a broker and its protocols, registry.py lists these; one package per
protocol. Imports routing/, messages/, effects.py.
"""
