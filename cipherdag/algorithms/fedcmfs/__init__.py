"""FedCMFS: the features that cause, or are caused by, each label."""
