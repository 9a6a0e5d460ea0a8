"""The captured output of workers: files in the state folder that stay small while a worker writes."""
