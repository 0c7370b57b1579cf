"""Bringing a site up: the stages in their order, each resumable, each saying what it changed."""
