"""Public clients in several languages, against memcached itself and then through the proxy (`make test-clients`)."""
