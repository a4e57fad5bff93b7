"""What is asked and what is concluded."""
