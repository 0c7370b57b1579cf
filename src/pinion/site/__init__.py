"""The Site: what a person states about one site. Loaded by `pinion.site.loader`, whole and valid or not at all."""
