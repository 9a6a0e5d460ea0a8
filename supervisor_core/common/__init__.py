"""Errors, time, text, events, threads and services: no knowledge of the product.

Every other folder may import it. It imports only the standard library and cronsim.
"""
