"""Parts of method=pbt: training, answering, signals, arms, reranking."""
