"""One page over any set of runs: what was best, what the sweep's axes did, how training went, and what failed."""
