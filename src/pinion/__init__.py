"""Pinion: one site file brings up an AI rack, and a report proves each claim."""
