"""What a site would do under a load: requests, Pis, links and the pool as events in time, routed by the production `pinion.routing.decide`.

Nothing here is a measurement. Rates of Pis are figures that others published; everything about the pool, the links and the load is what the
scenario says. Results are `simulated from published figures`, and say so wherever they are shown.
"""

EVIDENCE = "simulated from published figures"
