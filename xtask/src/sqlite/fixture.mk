# Builds SQLite's testfixture twice, of the same test code: as it is, and over sablecat.
#
# For make in a directory in which SQLite's source tree was configured. OURS is the directory with SQLite's
# amalgamation around our dispatcher, ARCHIVE is our library as an archive of C's.

include Makefile

TEST_SOURCES = $(TESTSRC) $(TOP)/src/tclsqlite.c
COMPILE = $(TCC) $(TEMP_STORE) $(TESTFIXTURE_FLAGS) -DSQLITE_NO_SYNC=1 -w -c
OBJECTS = $(patsubst %.c,%.o,$(notdir $(TEST_SOURCES)))
# They look into the structures that our amalgamation gives a field each.
INSIDERS = test3.o test_btree.o

.PHONY: fixtures
fixtures: testfixture-stock testfixture-ours

parts/.there:
	mkdir -p parts/ours
	touch $@

define object
parts/$(notdir $(1:.c=.o)): $(1) parts/.there | sqlite3.c
	$$(COMPILE) $(1) -o $$@
endef
$(foreach source,$(TEST_SOURCES),$(eval $(call object,$(source))))

parts/sqlite3.o: sqlite3.c parts/.there
	$(COMPILE) sqlite3.c -o $@

parts/ours/btreeInt.h: $(TOP)/src/btreeInt.h parts/.there
	sed '/^struct \(Btree\|BtCursor\) {$$/,/^  Btree \*p/s/^  Btree \*p/  void *pSablecat;\n&/' $< > $@

parts/ours/%.c: $(TOP)/src/%.c parts/.there
	cp $< $@

parts/ours/test%.o: parts/ours/test%.c parts/ours/btreeInt.h | sqlite3.c
	$(COMPILE) $< -o $@

parts/ours/sqlite3.o: $(OURS)/sqlite3_sablecat.c parts/.there
	$(COMPILE) $< -o $@

testfixture-stock: $(addprefix parts/,$(OBJECTS)) parts/sqlite3.o
	$(CC) -o $@ $^ $(LIBTCL) $(TLIBS)

# The archive has SQLite as well, for programs. The linker has no need of that, as all names are there before.
testfixture-ours: $(addprefix parts/,$(filter-out $(INSIDERS),$(OBJECTS))) \
		$(addprefix parts/ours/,$(INSIDERS)) parts/ours/sqlite3.o $(ARCHIVE)
	$(CC) -o $@ -Wl,--undefined=sablecat_sql_is_c_library $^ $(LIBTCL) $(TLIBS) -lgcc_s -lpthread -lm -ldl

.PRECIOUS: parts/ours/%.c
