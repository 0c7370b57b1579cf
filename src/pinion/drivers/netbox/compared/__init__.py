"""What differs: which record is the one that is wanted, and what about it is not as wanted."""
