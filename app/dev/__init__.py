"""Development stack: servers from wheels, a recording receiver, the demo and the verifier. Not part of the product."""
