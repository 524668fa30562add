"""One file per method; the file's name is the method's name, and the folder is the registry."""
