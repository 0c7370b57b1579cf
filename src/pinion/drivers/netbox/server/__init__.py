"""NetBox's API: reads, and writes of lists with an answer for each record."""
