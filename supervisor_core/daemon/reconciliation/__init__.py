"""Reconciliation: workers observed, a plan made, and one actor for each worker that carries it out."""
