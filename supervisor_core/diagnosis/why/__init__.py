"""`why`: facts gathered live, rules that name the cause, and the explanation."""
