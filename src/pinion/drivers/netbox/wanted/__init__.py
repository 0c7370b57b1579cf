"""What the plan wants: sites, VLANs and devices as records."""
