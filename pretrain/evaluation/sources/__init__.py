"""Readers of published data sets as people have them on disk: folders, archives, and the formats inside."""
