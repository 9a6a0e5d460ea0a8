"""The formats of receivers: a module with one pure function each, from an alert's document to a request.

A new format is a module here and an entry in `table.py`. Nothing here sends."""
