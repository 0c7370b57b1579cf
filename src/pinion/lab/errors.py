"""The one error of the lab."""

from __future__ import annotations


class LabError(Exception):
    """Something that the lab could not do: the message names what, the object, the reason and what to do about it."""
