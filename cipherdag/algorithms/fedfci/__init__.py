"""FedFCI: what data of all sites tell of causes where some may be unmeasured."""
