# Print the targets, a sentence each.
help:
	@awk '/^#/ { said = substr($$0, 3); next } /^[a-z]+:/ { sub(":.*", ""); printf "%-10s%s\n", $$0, said }' Makefile

GO ?= go
# The total time of all fuzz targets, in seconds.
FUZZTIME ?= 900
# The folder for generate. Another one leaves the sources unchanged.
OUT ?= .

tool := $(GO) tool -modfile=test/tools/go.mod

# All checks for a change, except fuzzing and test/interop/.
check: test race lint fresh

# The tests.
test:
	$(GO) test ./...

# The tests with the race detector.
race:
	$(GO) test -race ./...

# Vet for every system, gofumpt and golangci-lint.
lint:
	$(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) -C test/tools vet ./sbom ./notices
	$(GO) -C test/bench vet ./...
	@unformatted=$$($(tool) gofumpt -l .) && { [ -z "$$unformatted" ] || { echo "run gofumpt -w on:"; echo "$$unformatted"; exit 1; }; }
	$(tool) golangci-lint run ./...
	$(tool) buf lint protocol/schema

# The real peers: needs npm and python3.
interop:
	cd test/interop && $(GO) vet ./... && $(GO) test -count=1 ./...

# The fuzz targets, for FUZZTIME seconds in total.
fuzz:
	test/tools/fuzz $(FUZZTIME)

# Write the generated files: the messages of protocol/schema/, the generated sessions of fixtures/, the manual, the pictures of the monitor, the notices of linked modules.
generate:
	$(tool) buf generate protocol/schema --template protocol/schema/buf.gen.yaml --output $(OUT)
	$(GO) run ./fixtures/gen -dir $(OUT)/fixtures/sessions
	$(GO) run ./completions/gen -dir $(OUT)
	mkdir -p $(OUT)/docs
	$(GO) run ./test/screenshot $(OUT)/docs/monitor.svg $(OUT)/docs/cancel.svg
	$(GO) -C test/tools run ./notices $(abspath $(OUT))/THIRD_PARTY_NOTICES.txt

# Fail if the generated files or go.mod are stale.
fresh:
	test/tools/fresh

# Rewrite the expected output of the tests; read the diff as documentation.
update:
	$(GO) test ./test -update

# Make a release twice in dist/, without publishing it, and compare the two.
snapshot:
	test/tools/packages dist

# The benchmarks, compared with other programs: docs/performance.md.
bench:
	$(GO) -C test/bench run ./decode
	$(GO) -C test/bench run ./relay
	$(GO) -C test/bench run ./relay hub
	$(GO) -C test/bench run ./relay run
	$(GO) -C test/bench run ./broker
	$(GO) -C test/bench run ./broker monitor
	$(GO) -C test/bench run ./broker unit
	$(GO) -C test/bench run ./broker rlm
	$(GO) -C test/bench run ./broker share

.PHONY: help check test race lint interop fuzz generate fresh update snapshot bench
