"""The browser page and its HTTP interface under `/_playground/`; the page's own files are in `static/`."""
