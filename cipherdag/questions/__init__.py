"""The language that coordinator and sites speak: what may be asked, and how sums are read."""
