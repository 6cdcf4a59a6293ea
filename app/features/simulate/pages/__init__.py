"""Pages of the console for simulations."""
