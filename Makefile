# One line of work per target; what each does is in scripts/. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
WEIR := $(or $(CARGO_TARGET_DIR),target)/release/weir

.PHONY: help setup build demo studies-quick test test-long test-clients fuzz audit bench bench-quick bench-full programs packages release docs fmt clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

setup: ## install what a build and a test need (.venv, memcached), and build the release binary
	@scripts/setup

build: ## build the release binary, target/release/weir
	@scripts/setup binary

demo: setup ## measure what the proxy costs from 1 to 64 clients, in two minutes (the last line is the page)
	@.venv/bin/weir-lab ab direct weir --clients 1,4,16,64 --servers 3 --pairs 4 --precision 10% --error 5% --budget 110s \
	  --bin $(WEIR) || { status=$$?; [ $$status -eq 3 ] || [ $$status -eq 4 ]; }

STUDIES := s1 s2 s3 s4 s5 own
MINUTES := 20
TESTBED := netns
studies-quick: setup ## make MINUTES more of the quick runs of each whole study (STUDIES) on TESTBED and write the reports; repeat until nothing is missing
	@for name in $(STUDIES); do \
	  .venv/bin/weir-lab study $$name --pace quick --testbed $(TESTBED) --minutes $(MINUTES) --bin $(WEIR) || [ $$? -eq 3 ] || exit 1; \
	  .venv/bin/weir-lab verify runs/$$name-quick-$(TESTBED)/$$name.html || exit 1; \
	done

test: ## run every check: formats, lints, licences, tests, real processes
	@scripts/setup tools
	@$(PY) scripts/check --build

test-long: setup ## run the tests with many more cases (100,000 differential streams, 50,000 simulated worlds) and the slow ones (needs Go)
	@scripts/setup chart
	@scripts/setup chroots
	@$(PY) scripts/check --long

test-clients: ## run public clients in six languages against memcached and weir (needs the network)
	@scripts/setup clients
	@$(PY) -m tests.clients.matrix

fuzz: ## fuzz parsers and dataplane, guided by coverage, for a minute each (needs a nightly toolchain)
	@scripts/fuzz

audit: setup ## look up known vulnerabilities of every dependency (needs the network)
	@$(PY) scripts/audit

bench: ## compare weir proxy with its peers and with no proxy at all, an hour (bench-quick: 6, bench-full: hours)
	@scripts/setup bench
	@$(PY) bench/compare-peers --seconds 4

bench-quick: ## the same in three cells, with the proxy on its own core
	@scripts/setup bench
	@$(PY) bench/compare-peers --set quick --seconds 4

bench-full: ## the same in every cell
	@scripts/setup bench
	@$(PY) bench/compare-peers --set full

programs: ## build weir and weir-delay for published experiments in target/programs: a commit gives the same bytes anywhere
	@scripts/setup packages
	@$${WEIR_TOOLS:-.tools}/packing/bin/python -m packing --programs

packages: ## make a static program, .deb, image, wheel, SBOM and SHA256SUMS for each kind of machine in target/packages (minutes)
	@scripts/setup packages
	@$${WEIR_TOOLS:-.tools}/packing/bin/python -m packing

release: ## look whether this is a release, test, pack, and write its notes into target/packages (publishes nothing)
	@scripts/release

docs: ## make a book of the pages in docs/, target/book/index.html (the first time: some minutes, and the network)
	@scripts/setup docs
	@$${WEIR_TOOLS:-.tools}/bin/mdbook build
	@echo "target/book/index.html"

fmt: setup ## format Rust and Python
	@cargo fmt --all
	@$(PY) scripts/check --fix

clean: ## remove what was built: target, .venv, caches (runs/ stays)
	@scripts/setup clean
