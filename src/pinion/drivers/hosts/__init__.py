"""The driver for hosts: what runs on them (`onhost`), how it gets there (`bundle`), and SSH for reading facts (`ssh`)."""
