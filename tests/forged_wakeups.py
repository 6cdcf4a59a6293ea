"""Parts of wake-ups that no sender of the product writes."""

from app.kernel.wakeup import digest_of

DIGEST = digest_of(3, "send-mail", "=a,b\tc=ü%", 0)
FORGED = [
    "",
    ",",
    "http\t",
    "http\t0\ttarget\t\t128",
    "http\t0\ttarget\t\t99999999999999999999999",
    f"http\t{DIGEST}",
    f"http\t{DIGEST}\t",
    f"http\t{DIGEST}\t-1",
    f"http\t{DIGEST}\t{10**13}",
    f"http\t{DIGEST}\t\u0663",
    f"http\t{DIGEST.upper()}g\t5",
    f"http\t{DIGEST}0\t5",
    f"http\t{DIGEST}\t5\t6",
    f"http\t{DIGEST}\t5\n",
    "http\n",
    "HTTP",
    "ht\0tp",
    "http%00",
    "q" * 64,
    "'; DROP TABLE jobs; --",
]
