"""For auditors: ledgers, transcripts and their pages."""
