"""What REDCap dictionaries and FHIR views declare of columns, before a row is read."""
