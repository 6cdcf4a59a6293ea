"""Development stack: servers from wheels, a recording receiver, the demo, the verifier. No part of the product."""
