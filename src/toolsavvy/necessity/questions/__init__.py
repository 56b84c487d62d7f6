"""Where questions come from: generated arithmetic, TruthfulQA, the published raw data, sets with fixed labels."""
