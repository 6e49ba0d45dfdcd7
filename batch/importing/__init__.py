"""Imports of chat logs and span dumps to an archive of event Parquet."""
