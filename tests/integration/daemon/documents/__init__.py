"""The programs of the requirement documents, written as those documents write them."""
