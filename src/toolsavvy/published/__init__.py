"""Published results, so that a run can print ours beside theirs."""
