"""Optimisers (one a file) and schedules: each is a plain function that a yaml names with `_target_`."""
