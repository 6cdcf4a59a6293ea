"""Steps of workflows: transactions that report ends, start nodes and take reports back."""
