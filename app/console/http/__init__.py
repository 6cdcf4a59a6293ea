"""HTTP of the console: pages and their regions, forms, headers, static files, errors."""
