//! memcached's protocol without IO: bytes to messages and messages to bytes.
