"""The console: what is judged live, as pages."""
