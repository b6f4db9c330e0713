"""The comparison of proxies behind `bench/compare-peers`.

`cells` says what is measured, `subjects` starts what is measured, `measure` makes one run, `machine` describes where,
`table` turns raw runs into the published table.
"""
