//! A closed-loop load generator that verifies every reply.
