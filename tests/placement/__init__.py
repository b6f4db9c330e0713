"""Keys are where other systems put them: compared with the installed programs and libraries."""
