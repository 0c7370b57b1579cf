"""The one error of images."""

from __future__ import annotations


class ImageError(Exception):
    """Something that could not be done with an image: the message names what, the object, the reason and what to do about it."""
