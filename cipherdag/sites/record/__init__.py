"""What left a site and which sums it helped to open. These records stay at the site."""
