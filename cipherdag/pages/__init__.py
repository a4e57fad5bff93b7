"""Pages for people: the report of a run and the register of a site's releases, offline HTML."""
