"""Tasks, one kind a file: where the items come from, how they are read, and which metric and version they carry."""
