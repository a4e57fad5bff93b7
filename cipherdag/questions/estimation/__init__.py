"""What a coordinator asks to estimate: effects of a treatment, and times until an event."""
