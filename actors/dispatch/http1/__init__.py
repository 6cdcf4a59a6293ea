"""HTTP/1.1 client of the deliveries around llhttp's parser (httptools).

A library's client reads, keeps and parses without a limit before its caller gets control. Here each of these is
bounded, so that no receiver can block the event loop or fill the memory of all deliveries. The client has no redirects,
cookies, proxies or decompression, and does not repeat a request on a stale connection: every send is a counted attempt.
"""
