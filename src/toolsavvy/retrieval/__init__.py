"""Retrievers: whatever ranks a catalog's tools for queries, all behind one protocol (`ranking.Retriever`)."""
