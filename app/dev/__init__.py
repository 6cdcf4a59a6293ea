"""The development stack: real servers from wheels, a recording receiver, the demo. Never imported by the product."""
