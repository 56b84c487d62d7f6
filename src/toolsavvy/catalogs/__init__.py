"""Catalogs: one file per source format."""
