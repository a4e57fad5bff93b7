"""RFcd: the graph whose worst-case regret over sites is smallest."""
