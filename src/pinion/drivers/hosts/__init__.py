"""The driver for hosts: what runs there (`onhost`), how it gets there (`bundle`), who they are (`inventory`), what they say (`answers`)."""
