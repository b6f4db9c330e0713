"""What the tests share: processes that always end, and a plain socket that speaks memcached's text protocol."""
