"""Health: signs of life of the processes of each region, and which regions are alive."""
