# make build       the programs, in bin/
# make demo        the founding story on this machine, with real parts: an event opens a port, a ban ends by itself
# make test        everything CI runs: Go with the race detector, rspec, puppet-lint, the demo
# make test-server  bellpull on a real Puppet Server alone, which make test includes
# make test-debian13  what depends on Puppet, on Debian 13: Puppet 8, Puppet Server 8
# make check       the inner loop: gofmt, vet, short Go tests
# make lint        golangci-lint with the import rules of the tree
# make fuzz        every fuzz test for FUZZTIME (default 30s)
# make bench-fact  what the fact costs: one line per bar, met or not met
# make bench-watch the watcher on thousands of simulated nodes, likewise; BENCH_WATCH="-sections herd -nodes 200" for less
# make bench-publish the gateway, many publishers on one document, and apply, likewise; BENCH_PUBLISH="-sections gateway" for less
# make man         manual pages of bellpull's commands, in man/man1
# make clean       remove what the above made
#
# demo and test first get what they need: as root on Debian from the
# distribution, elsewhere they say what is missing (.ci/setup).

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.PHONY: build demo test test-server test-debian13 check lint fuzz bench-fact bench-watch bench-publish man clean

GO       ?= go
FUZZTIME ?= 30s

# The version is the tag; a tree without git builds all the same.
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PROGRAMS := $(notdir $(wildcard cmd/bellpull*))

# Pinned here and not in go.mod: its dependencies stay out of ours.
GOLANGCI_VERSION := v2.15.0
GOLANGCI         := bin/golangci-lint-$(GOLANGCI_VERSION)

# Static programs without symbols; version control is ours to read (VERSION).
build:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X github.com/bellpull/bellpull/cmd/internal/cli.version=$(VERSION)' -o bin/ $(PROGRAMS:%=./cmd/%)

demo:
	.ci/setup demo
	$(MAKE) build
	docs/demo/demo.sh

test:
	.ci/setup test
	.ci/test

test-server:
	.ci/setup test
	$(GO) test -v -count=1 -timeout 20m ./cmd/internal/acceptance

test-debian13:
	.ci/debian13

check:
	.ci/gofmt
	$(GO) vet ./...
	$(GO) test -short ./...

lint: $(GOLANGCI)
	$(GOLANGCI) run

$(GOLANGCI):
	GOBIN=$(CURDIR)/bin/tmp $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/tmp/golangci-lint $@
	rmdir bin/tmp

fuzz:
	@set -e; for package in $$($(GO) list ./...); do \
	  for name in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$name"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

bench-fact: build
	$(GO) run ./cmd/internal/bench/fact

bench-watch:
	$(GO) run ./cmd/internal/bench/watch $(BENCH_WATCH)

bench-publish:
	$(GO) run ./cmd/internal/bench/publish $(BENCH_PUBLISH)

man: build
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} bin/bellpull man man/man1

clean:
	rm -rf man bin dist puppet/pkg puppet/spec/fixtures
