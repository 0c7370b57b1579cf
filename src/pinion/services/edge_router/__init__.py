"""The router of a Raspberry Pi: clients ask it in OpenAI's protocol, and `pinion.routing.decide` says who answers, the Pi or the pool.

Each module knows those above it only: `openai` (the protocol), `place` (who may be asked), `engine` and `kserve` (the two places),
`measuring` (what is known of the Pi), `settings`, `router` (the application).
"""
