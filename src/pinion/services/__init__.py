"""Programs that run on the site. They never import plan, drivers or lab."""
