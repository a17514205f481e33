# racksh: `make` builds build/racksh and build/man, `make check` runs all tests, `make demo` shows the whole job on the lab.
# `make bench` measures, `make fuzz` feeds the parsers garbage for SECONDS each, `make deb` makes a package.
# SAN=1 builds with ASan and UBSan, SAN=thread with TSan, into a folder of its own (make check SAN=1, make unit SAN=thread); CC=clang works too; LIBPQ=no builds without PostgreSQL.

PREFIX ?= /usr/local
BUILD ?= build$(if $(SAN),-san$(patsubst %,-%,$(SAN:1=)))
CC ?= cc
FUZZ_CC ?= clang
SECONDS ?= 30
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo 0)
PKGS := libcrypto libssh libvirt libvirt-qemu readline jansson sqlite3 libcurl libxml-2.0 libisofs-1
PC := $(shell command -v pkg-config)
ifeq ($(LIBPQ),)
LIBPQ := $(if $(PC),$(shell pkg-config --exists libpq && echo yes))
endif
ifeq ($(LIBPQ),yes)
PKGS += libpq
DEFS += -DRK_WITH_LIBPQ=1
endif

comma := ,
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wformat=2 -Wundef -Wvla -Werror
HARDEN := -fstack-protector-strong -fPIE $(if $(SAN),,-D_FORTIFY_SOURCE=2)
CFLAGS ?= -O2 -g
SAN_1 := address,undefined
SAN_thread := thread
SAN_fuzz := fuzzer-no-link,address,undefined
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN_$(SAN)) -fno-omit-frame-pointer $(if $(findstring undefined,$(SAN_$(SAN))),-fno-sanitize-recover=undefined))
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS)))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $(shell pkg-config --libs $(PKGS)))$(PKG_LIBS)
ALL_CFLAGS = -std=gnu17 -D_GNU_SOURCE -I. -I$(BUILD)/gen $(WARN) $(HARDEN) $(CFLAGS) $(SANFLAGS) $(DEFS) $(PKG_CFLAGS)
ALL_LDFLAGS = -pie -Wl,-z,relro,-z,now $(LDFLAGS) $(SANFLAGS)
# The dynamic linker looks every name up in the libraries in this order: libc and libcrypto, in which most are found, come
# first. It is a tenth of what a short command takes.
FIRST_LIBS := $(if $(SAN),,-Wl$(comma)--push-state$(comma)--no-as-needed -lc -Wl$(comma)--pop-state)
LIBS = $(FIRST_LIBS) $(PKG_LIBS) -lpthread -lm

# What is in remote/ is no part of racksh: it is sent to other hosts.
SRCS := $(shell find cli provision vmspec inventory -name '*.c' ! -path '*/remote/*' | sort)
MAIN := cli/main.c
OBJS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(MAIN),$(SRCS)))
UNIT := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/unit/test_*.c)))
BENCH := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/bench/bench_*.c)))
FUZZ := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

# Data files (profiles, sizes, SQL) become string constants of build/gen/data.c, so that racksh stays one file.
DATA := $(sort $(wildcard inventory/profiles/*.json vmspec/sizes/*.json vmspec/*.json provision/health/profiles/*.json provision/counters/*.json cli/tutorial/* provision/drivers/remote/*.c)) $(BUILD)/gen/ib_pkeys

all: $(BUILD)/racksh man

$(BUILD)/racksh: $(BUILD)/cli/main.o $(BUILD)/libracksh.a
	@echo "  CC $@"; $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libracksh.a: $(OBJS) $(BUILD)/gen/data.o
	@rm -f $@; echo "  AR $@"; ar rcs $@ $^

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/gen/data.c: $(DATA) tests/embed.sh Makefile
	@mkdir -p $(@D)
	@echo "  EMBED $@"; tests/embed.sh $(BUILD)/ $(DATA) > $@.tmp && mv $@.tmp $@

# Sent to the hosts of subnet managers: as plain as can be, whatever racksh is built with.
$(BUILD)/gen/ib_pkeys: provision/drivers/remote/ib_pkeys.c Makefile
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) -O2 -s -o $@ $< -ldl

$(BUILD)/gen/data.o: $(BUILD)/gen/data.c
	@echo "  CC $@"; $(CC) $(ALL_CFLAGS) -c -o $@ $<

# The version is in one object only, so that a commit does not make all others old.
$(BUILD)/gen/version: force
	@mkdir -p $(@D); echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@

$(BUILD)/cli/main.o: $(BUILD)/gen/version
$(BUILD)/cli/main.o: DEFS += -DRK_VERSION='"$(VERSION)"'

$(BUILD)/tests/%: tests/%.c $(BUILD)/libracksh.a
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libracksh.a $(LIBS) $(TEST_LIBS)

$(UNIT): TEST_LIBS := -lcmocka
$(FUZZ): TEST_LIBS := -fsanitize=fuzzer

unit: $(UNIT)
	tests/run-unit.sh $(UNIT)

man: $(BUILD)/man/racksh.1

$(BUILD)/man/racksh.1: $(BUILD)/racksh $(wildcard man/*.in) man/make.sh man/nouns.sh
	man/make.sh $(BUILD)/racksh $(BUILD)/man

# On a bare machine the packages come first; make then starts anew, because pkg-config was not there when it read this file.
packages:
	tests/install-packages.sh

check: packages
	$(MAKE) all unit-all
	RACKSH=$(BUILD)/racksh tests/check.sh $(BUILD)

# Plays scripts on a pseudo terminal (tests/pty/run.sh).
$(BUILD)/tests/pty/drive: tests/pty/drive.c
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) $(CFLAGS) -o $@ $< -lutil

# Checks golden results against their schemas (tests/golden/run.sh).
$(BUILD)/tests/golden/validate: tests/golden/validate.c $(BUILD)/libracksh.a
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

unit-all: $(UNIT) $(BUILD)/tests/pty/drive $(BUILD)/tests/golden/validate
bench-all: $(BENCH)
fuzz-all: $(FUZZ)

# Measures; decides nothing. ONLY=name runs the benches whose name holds it.
bench: packages
	$(MAKE) all bench-all
	RACKSH=$(BUILD)/racksh tests/bench/run.sh $(BUILD) $(ONLY)

# Garbage for every parser, SECONDS or RUNS (executions) each (libFuzzer, so clang). ONLY="name name": these alone.
fuzz: packages
	$(MAKE) SAN=fuzz CC="$(FUZZ_CC)" fuzz-all
	tests/fuzz/run.sh build-san-fuzz $(SECONDS)

demo: packages
	$(MAKE) all
	RACKSH=$(BUILD)/racksh tests/demo.sh

install: all
	install -D -m 755 $(BUILD)/racksh $(DESTDIR)$(PREFIX)/bin/racksh
	for page in $(BUILD)/man/*.[1-9]; do install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d $(DESTDIR)$(PREFIX)/share/doc/racksh/examples
	$(BUILD)/racksh completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/racksh
	$(BUILD)/racksh completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_racksh
	$(BUILD)/racksh completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/racksh.fish
	install -m 644 README.md $(DESTDIR)$(PREFIX)/share/doc/racksh/
	install -m 644 tests/examples/* $(DESTDIR)$(PREFIX)/share/doc/racksh/examples/

deb: packages
	$(MAKE) all
	tests/package/deb.sh $(BUILD)

clean:
	rm -rf build build-san*

-include $(OBJS:.o=.d) $(BUILD)/cli/main.d $(UNIT:=.d) $(BENCH:=.d) $(FUZZ:=.d)
.PHONY: all unit unit-all man packages check clean demo install deb bench bench-all fuzz fuzz-all force
.DELETE_ON_ERROR:
