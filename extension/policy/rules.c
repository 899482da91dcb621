/*
 * extension/policy/rules.c
 *		Reads the rules file, and distributes its rules to all processes.
 *
 * The postmaster reads the file at server start; if it has errors, the server starts
 * without rules.  At a reload, writer 0 reads it for all processes; if it has errors,
 * the rules remain as they are.  A change of the rules is recorded first.  Then
 * writer 0 writes them to a file in the data directory, as one text without includes,
 * increments their generation in the control area, and sets STENO_NEWS_RULES in the
 * state of each session.  A session reads that file before its next statement; a new
 * session, which inherits the postmaster's rules, before its first.  So a rules file
 * that was edited but not reloaded, or has errors, affects no session.
 *
 * Each process has its own copy of the rules, in memory from malloc (core/filter/rules.c).
 * Patterns of redact= are compiled into a table of the process that only grows: a
 * statement that began under older rules may still refer to their patterns.
 */
#include "base/steno.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_collation.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "regex/regex.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "filter/rules.h"
#include "policy/rules.h"

/* The rules in force.  Replaced by rename(), so it is read as a whole, old or new. */
#define IN_FORCE PG_STAT_TMP_DIR "/pg_steno_rules"

#define FILE_MOST (64 * 1024 * 1024)

/* So many errors of a file go to the log. */
#define LOGGED_MOST 20

#define REDACTED "<redacted>"

StenoRules *steno_rules;		/* of this process; NULL: none */

static uint64 generation;		/* of steno_rules: the postmaster's have 0 */
static uint32 file_errors;		/* that the file had when it was last read
								 * here */

/* ---- files ---- */

static const char *
rules_path(void)
{
	static char path[MAXPGPATH];
	const char *slash;

	if (is_absolute_path(steno_rules_file) || ConfigFileName == NULL)
		strlcpy(path, steno_rules_file, sizeof(path));
	else
	{
		slash = strrchr(ConfigFileName, '/');
		snprintf(path, sizeof(path), "%.*s%s", slash ? (int) (slash - ConfigFileName) + 1 : 0,
				 ConfigFileName, steno_rules_file);
	}
	return path;
}

static StenoRead
read_failed(char *reason, const char *what)
{
	snprintf(reason, STENO_RULES_REASON, "%s", what);
	return STENO_READ_FAILED;
}

static StenoRead
read_whole_file(void *arg, const char *path, char **content, size_t *len, char *reason)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
	struct stat st;
	size_t		got = 0;

	if (fd < 0)
		return errno == ENOENT ? STENO_READ_ABSENT : read_failed(reason, strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST ||
		(*content = malloc(st.st_size + 1)) == NULL)
	{
		close(fd);
		return read_failed(reason, "it is no ordinary file of up to 64 MB");
	}
	while (got < (size_t) st.st_size)
	{
		ssize_t		n = read(fd, *content + got, st.st_size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
		{
			read_failed(reason, strerror(errno));
			free(*content);
			close(fd);
			return STENO_READ_FAILED;
		}
		if (n == 0)
			break;
		got += n;
	}
	close(fd);
	*len = got;
	return STENO_READ_OK;
}

static int
is_conf_file(const struct dirent *entry)
{
	size_t		n = strlen(entry->d_name);

	return entry->d_name[0] != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".conf") == 0;
}

static int
compare_entry_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static StenoRead
list_rules_directory(void *arg, const char *path, char **names, char *reason)
{
	struct dirent **entries;
	int			n = scandir(path, &entries, is_conf_file, compare_entry_names);
	size_t		total = 2;
	char	   *to;
	int			i;

	if (n < 0)
		return errno == ENOENT ? STENO_READ_ABSENT : read_failed(reason, strerror(errno));
	for (i = 0; i < n; i++)
		total += strlen(entries[i]->d_name) + 1;
	*names = to = calloc(1, total);
	for (i = 0; i < n; i++)
	{
		if (*names)
			to = stpcpy(to, entries[i]->d_name) + 1;
		free(entries[i]);
	}
	free(entries);
	return *names ? STENO_READ_OK : read_failed(reason, "out of memory");
}

/* ---- regular expressions ---- */

/* Wide characters of a text, in memory that may not be there; NULL: none. */
static pg_wchar *
to_wide_characters(const char *text, size_t len, size_t *wide_len)
{
	pg_wchar   *wide;

	if (len >= INT_MAX)
		return NULL;
	wide = MemoryContextAllocExtended(CurrentMemoryContext, (len + 1) * sizeof(pg_wchar),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (wide)
		*wide_len = pg_mb2wchar_with_len(text, wide, (int) len);
	return wide;
}

/*
 * Compile with the C collation, which needs no catalog.  Older servers' compiler
 * raises no error; that of newer ones may.
 */
static bool
compile_regex(regex_t * regex, const char *pattern, char *reason)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	pg_wchar   *wide;
	size_t		len;
	volatile bool ok = false;

	snprintf(reason, STENO_RULES_REASON, "out of memory");
	wide = to_wide_characters(pattern, strlen(pattern), &len);
	if (wide)
	{
		PG_TRY();
		{
			int			code = pg_regcomp(regex, wide, len, REG_ADVANCED, C_COLLATION_OID);

			ok = code == REG_OKAY;
			if (!ok)
				pg_regerror(code, regex, reason, STENO_RULES_REASON);
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(TopMemoryContext);
			steno_forget_error();
			ok = false;
		}
		PG_END_TRY();
		pfree(wide);
	}
	MemoryContextSwitchTo(old);
	return ok;
}

static bool
check_regex(void *arg, const char *pattern, char *reason)
{
	regex_t		regex;

	if (!compile_regex(&regex, pattern, reason))
		return false;
	pg_regfree(&regex);
	return true;
}

typedef struct Redaction
{
	char	   *pattern;
	bool		usable;
	regex_t		regex;
} Redaction;

static Redaction *redactions;
static int	redaction_count;

/* The pattern's number in the table, from 1; 0: no memory for it. */
static uint32
redaction_number(const char *pattern)
{
	char		reason[STENO_RULES_REASON];
	Redaction  *more;
	int			i;

	for (i = 0; i < redaction_count; i++)
		if (strcmp(redactions[i].pattern, pattern) == 0)
			return i + 1;
	if (redaction_count >= UINT16_MAX - 1)
		return 0;
	more = realloc(redactions, (redaction_count + 1) * sizeof(Redaction));
	if (more == NULL)
		return 0;
	redactions = more;
	redactions[i].pattern = strdup(pattern);
	if (redactions[i].pattern == NULL)
		return 0;
	redactions[i].usable = compile_regex(&redactions[i].regex, pattern, reason);
	return ++redaction_count;
}

/*
 * Before statements are judged by them: compile what the session's rules
 * redact.  A pattern that cannot be used hides the text.
 */
void
steno_rules_prepare(StenoChoice *choice)
{
	uint32		i;

	for (i = 0; i < choice->count; i++)
		if (choice->rules[i]->redact && choice->rules[i]->tag == 0)
		{
			choice->rules[i]->tag = redaction_number(choice->rules[i]->redact);
			if (choice->rules[i]->tag == 0)
				choice->rules[i]->tag = UINT16_MAX;
		}
}

/* Matches of the regex in wide text are replaced; false: it could not be applied. */
static bool
replace_matches(regex_t * regex, const pg_wchar *wide, size_t len, StringInfo to)
{
	size_t		from = 0;
	char	   *piece = MemoryContextAllocExtended(CurrentMemoryContext,
												   len * MAX_MULTIBYTE_CHAR_LEN + 1,
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);

	if (piece == NULL)
		return false;
	while (from <= len)
	{
		regmatch_t	match;
		int			code = pg_regexec(regex, wide, len, from, NULL, 1, &match, 0);
		size_t		stop = code == REG_OKAY ? (size_t) match.rm_so : len;

		if (code != REG_OKAY && code != REG_NOMATCH)
			return false;
		appendBinaryStringInfo(to, piece, pg_wchar2mb_with_len(wide + from, piece, (int) (stop - from)));
		if (code == REG_NOMATCH)
			return true;
		if (match.rm_eo > match.rm_so)
		{
			appendStringInfoString(to, REDACTED);
			from = match.rm_eo;
		}
		else
		{
			/* of nothing: go on behind the next character */
			if (stop < len)
				appendBinaryStringInfo(to, piece, pg_wchar2mb_with_len(wide + stop, piece, 1));
			from = stop + 1;
		}
	}
	return true;
}

/*
 * The text without what the pattern finds, in scratch memory; NULL when it could
 * not be applied.  No error escapes, whatever state the transaction is in.
 */
char	   *
steno_rules_redact(uint32 tag, const char *text, size_t len)
{
	MemoryContext old = MemoryContextSwitchTo(steno_private.scratch);
	Redaction  *r = tag <= (uint32) redaction_count ? &redactions[tag - 1] : NULL;
	uint32		holdoff = InterruptHoldoffCount;
	char	   *volatile result = NULL;
	pg_wchar   *wide;
	size_t		wide_len;

	steno_my.scratch_used = true;
	/* beyond that, the result might not fit what a StringInfo can hold */
	if (r == NULL || !r->usable || len > MaxAllocSize / 16 ||
		(wide = to_wide_characters(text, len, &wide_len)) == NULL)
	{
		MemoryContextSwitchTo(old);
		return NULL;
	}
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		StringInfoData to;

		initStringInfo(&to);
		if (replace_matches(&r->regex, wide, wide_len, &to))
			result = to.data;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(steno_private.scratch);
		steno_forget_error();
		result = NULL;
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;	/* an error has set it to zero */
	MemoryContextSwitchTo(old);
	return result;
}

/* ---- reading ---- */

static StenoRules *
parse_rules_file(void)
{
	static const StenoRuleFiles files = {read_whole_file, list_rules_directory, check_regex, NULL};

	return steno_rules_parse(&files, rules_path());
}

/* The file as it is now, for the view; to be freed. */
StenoRules *
steno_rules_now(void)
{
	return parse_rules_file();
}

static void
log_rule_errors(const StenoRules *rules, const char *consequence)
{
	uint32		i;

	if (rules == NULL)
	{
		ereport(LOG,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("rules file \"%s\" was not loaded: out of memory", rules_path()),
				 errdetail_internal("%s", consequence)));
		return;
	}
	for (i = 0; i < rules->error_count && i < LOGGED_MOST; i++)
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("rules file \"%s\", line %d: %s", rules->errors[i].file,
						rules->errors[i].line, rules->errors[i].message)));
	ereport(LOG,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("rules file \"%s\" was not loaded: it has %u errors", rules_path(),
					rules->error_count),
			 errdetail_internal("%s", consequence)));
}

/* The postmaster's, before it starts any process. */
void
steno_rules_load(void)
{
	StenoRules *rules = parse_rules_file();

	steno_rules_free(steno_rules);
	steno_rules = NULL;
	generation = 0;
	file_errors = rules ? rules->error_count : 1;
	if (file_errors == 0)
		steno_rules = rules;
	else
	{
		log_rule_errors(rules, "There are no rules: what the settings ask for is recorded.");
		steno_rules_free(rules);
	}
}

/*
 * Take over the rules in force if ours are older.  drop is called before the old ones are
 * freed, so that the caller forgets its pointers into them.  Returns whether there are new
 * ones.  If the file cannot be read, this process keeps its rules until the next change.
 */
bool
steno_rules_renew(void (*drop) (void))
{
	static const StenoRuleFiles files = {read_whole_file, list_rules_directory, NULL, NULL};
	uint64		newest = atomic_load(&steno_control->rules_generation);
	StenoRules *rules;

	if (newest == generation)
		return false;
	rules = steno_rules_parse(&files, IN_FORCE);
	generation = newest;
	if (rules == NULL || rules->error_count != 0 || access(IN_FORCE, R_OK) != 0)
	{
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("could not read the rules in force from file \"%s\"", IN_FORCE),
				 errdetail("This process keeps the rules that it loaded before.")));
		steno_rules_free(rules);
		return false;
	}
	if (drop)
		drop();
	steno_rules_free(steno_rules);
	steno_rules = rules;
	return true;
}

/* ---- writer 0: changes ---- */

/* The rules as one text; with none, an empty one.  To be freed. */
static char *
rules_as_text(const StenoRules *rules, size_t *len)
{
	*len = 0;
	return rules ? steno_rules_write(rules, len) : strdup("");
}

static void
report_rules_change(StenoRulesChange change, void *arg, int before, const StenoRules *rules, uint32 errors)
{
	char		old[32] = "";
	char		new[32];
	char		error_count[16];
	char		hex[SHA256_DIGEST_LENGTH * 2 + 1];
	uint8		hash[SHA256_DIGEST_LENGTH];
	size_t		len;
	char	   *text = rules_as_text(rules, &len);
	int			i;

	if (before >= 0)
		snprintf(old, sizeof(old), "%d rules", before);
	snprintf(new, sizeof(new), "%u rules", rules ? rules->count : 0);
	snprintf(error_count, sizeof(error_count), "%u", errors);
	SHA256((const uint8 *) (text ? text : ""), text ? len : 0, hash);
	for (i = 0; i < SHA256_DIGEST_LENGTH; i++)
		snprintf(hex + i * 2, 3, "%02x", hash[i]);
	free(text);
	change(arg, old, new, error_count, hex);
}

/* At the writer's start: the rules that the server started with. */
void
steno_rules_started(StenoRulesChange change, void *arg)
{
	steno_rules_renew(NULL);
	if ((steno_rules && steno_rules->count > 0) || file_errors > 0)
		report_rules_change(change, arg, -1, steno_rules, file_errors);
}

static bool
write_rules_in_force(const char *text, size_t len)
{
	int			fd;
	bool		ok;

	(void) unlink(IN_FORCE ".new"); /* what is left by that name may be a pipe */
	fd = open(IN_FORCE ".new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	errno = ENOSPC;
	ok = write(fd, text, len) == (ssize_t) len;
	return close(fd) == 0 && ok;
}

/*
 * Tell all processes that there are other rules.  The file is in its place by now, so a
 * process that sees the new generation, or the news, reads it or a newer one.
 */
static void
announce_rules(void)
{
	uint32		i;

	atomic_fetch_add(&steno_control->rules_generation, 1);
	generation = atomic_load(&steno_control->rules_generation);
	for (i = 0; i < steno_rings.nrings; i++)
		atomic_fetch_or(&((StenoLocal *) steno_ring_at(&steno_rings, i)->own)->news, STENO_NEWS_RULES);
}

/*
 * Record the change, then let it take effect.  The new file is written before the record, so
 * that a full disk prevents both.
 */
static void
put_rules_in_force(StenoRules *rules, const char *text, size_t len, StenoRulesChange change, void *arg)
{
	int			before = steno_rules ? steno_rules->count : 0;

	if (!write_rules_in_force(text, len))
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", IN_FORCE ".new"),
				 errdetail("The previous rules stay in effect.")));
		steno_rules_free(rules);
		return;
	}
	report_rules_change(change, arg, before, rules, 0);
	if (rename(IN_FORCE ".new", IN_FORCE) != 0)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\": %m", IN_FORCE ".new"),
				 errdetail("The previous rules stay in effect.")));
		steno_rules_free(rules);
		return;
	}
	steno_rules_free(steno_rules);
	steno_rules = rules;
	announce_rules();
}

void
steno_rules_reload(StenoRulesChange change, void *arg)
{
	StenoRules *rules = parse_rules_file();
	uint32		errors = rules ? rules->error_count : 1;
	uint32		errors_before = file_errors;
	char	   *text;
	char	   *present;
	size_t		len;
	size_t		present_len;

	file_errors = errors;
	if (errors > 0)
	{
		log_rule_errors(rules, "The previous rules stay in effect.");
		steno_rules_free(rules);
		if (errors != errors_before)
			report_rules_change(change, arg, steno_rules ? steno_rules->count : 0, steno_rules, errors);
		return;
	}
	text = rules_as_text(rules, &len);
	present = rules_as_text(steno_rules, &present_len);
	if (text && present && (len != present_len || memcmp(text, present, len) != 0))
		put_rules_in_force(rules, text, len, change, arg);
	else
	{
		if (errors_before > 0)
			report_rules_change(change, arg, steno_rules ? steno_rules->count : 0, steno_rules, 0);
		steno_rules_free(rules);
	}
	free(text);
	free(present);
}
