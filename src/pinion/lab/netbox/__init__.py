"""The official NetBox in the lab: how it is built once, configured per instance and served."""
