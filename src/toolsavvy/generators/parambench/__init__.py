"""A benchmark of parameter generation on a cloud network API, every reference call carried out."""
