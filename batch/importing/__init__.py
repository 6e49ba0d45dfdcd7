"""Imports: chat logs and span dumps written as an archive of event Parquet."""
