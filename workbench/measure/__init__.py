"""Measurements on a GPU: inputs that are never zeros, cold rotation, graph timing, errors against float64."""
