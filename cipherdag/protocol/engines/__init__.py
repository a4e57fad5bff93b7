"""What carries opaque bytes to every site and back."""
