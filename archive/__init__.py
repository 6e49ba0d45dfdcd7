"""Archives of judged and imported events: Parquet files, their manifest, and the rule sets in force."""
