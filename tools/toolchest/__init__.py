"""How Pinion obtains the outside programs it runs. Standard library only: this runs before anything is installed."""
