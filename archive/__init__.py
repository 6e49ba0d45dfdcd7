"""What is kept of judged and imported events: files of Parquet, their manifest, and the rules in force."""
