"""What is written so that NetBox holds what is wanted, and what is removed."""
