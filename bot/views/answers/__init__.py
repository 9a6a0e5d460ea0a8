"""Answers that one person sees: lists, help, refusals, explanations."""
