"""Every claim the plan makes, as a Check with an expected value, and what was found as Evidence."""
