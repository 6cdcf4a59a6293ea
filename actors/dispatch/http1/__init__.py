"""HTTP/1.1 client of the deliveries: a protocol of our own around llhttp's parser (httptools).

A library's client decides by itself how much it reads, keeps and parses before its caller may say anything. Here each
of these is bounded, so that no receiver can hold up the event loop or fill the memory that all deliveries share.
The client does nothing on its own: no redirects, cookies, proxies, decompression, and no second try on a stale
connection, because every send must be an attempt that is counted.
"""
