"""Run directories to pages and tables. Reads files only."""
