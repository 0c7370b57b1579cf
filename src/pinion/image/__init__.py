"""Disk images of a site's Pis: built, signed, booted under emulation, written to cards.

One base image (`base`) serves all nodes; a node's image is the base with its seed partition and its boot files put in (`node`).
"""
