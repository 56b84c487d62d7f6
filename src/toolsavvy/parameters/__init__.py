"""Getting arguments right: prompts, signals on values, self-training, reranking, and a cloud that carries calls out."""
