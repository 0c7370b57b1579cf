"""The driver for hosts: what runs on them (`onhost`), how it gets there (`bundle`, `ssh`), and who they are (`inventory`)."""
