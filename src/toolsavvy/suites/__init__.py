"""Suites: examples x metrics x slices. What a suite returns is the same for all of them, and so is its bootstrap.

A suite has a `name` and `run(data, systems) -> Outcome`. It fills a `Table` with one value per item for every system,
metric and k; slices, intervals, paired tests and W&B keys follow from that.
"""
