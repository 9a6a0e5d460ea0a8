"""The pages in `docs/reference/` and `config.example.yaml`, generated from the code by `make reference`.

A page is a template with hand-written parts and places for tables. The descriptions in the tables come from the code,
so they are changed there.
"""
