"""From a data source to a site's aligned table, by a schema."""
