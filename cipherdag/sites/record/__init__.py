"""What left a site and which sums it helped to open."""
