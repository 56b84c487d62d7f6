.DEFAULT_GOAL := help
PYTHON ?= python3
