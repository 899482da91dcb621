/*
 * core/filter/rules.h
 *		The rules file: which statements of whom are recorded, and with what.
 *
 * Parsing: steno_rules_parse reads the file, and those that it includes, through
 * the caller's functions, into an array of rules in the order of the file, and
 * the errors that it found.  steno_rules_write gives the same rules as one text
 * without includes, to be parsed again by another process.
 *
 * Deciding: steno_rules_choose takes the rules that can match one session, and
 * sums up in masks what they say of whole classes.  For a class in the mask
 * looked_at, steno_rules_first finds a statement's rule; what it needs to know
 * of each relation, steno_rules_of_object computes once.
 */
#ifndef STENO_RULES_H
#define STENO_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "defs.h"

/* Files within files, as deep as the server's own. */
#define STENO_RULES_DEPTH 10

/* Against files that include each other again and again. */
#define STENO_RULES_FILES 1000
#define STENO_RULES_MOST 1000000

typedef enum StenoRuleAction
{
	STENO_RULE_RECORD,
	STENO_RULE_SKIP,
	STENO_RULE_SYNC				/* as record, and to be on disk */
} StenoRuleAction;

typedef enum StenoRuleColumn
{
	STENO_RULE_USER,
	STENO_RULE_DATABASE,
	STENO_RULE_APPLICATION,
	STENO_RULE_CLIENT,
	STENO_RULE_CLASS,
	STENO_RULE_OBJECT,
	STENO_RULE_COLUMNS
} StenoRuleColumn;

typedef enum StenoClientKind
{
	STENO_CLIENT_NONE,			/* a process without a client */
	STENO_CLIENT_LOCAL,
	STENO_CLIENT_HOST,			/* of any address */
	STENO_CLIENT_IPV4,
	STENO_CLIENT_IPV6
} StenoClientKind;

/* An address, or, with bits, a range of them. */
typedef struct StenoClient
{
	StenoClientKind kind;
	uint8_t		bits;
	uint8_t		address[16];
} StenoClient;

/* One of the values of a column. */
typedef struct StenoRuleItem
{
	const char *raw;			/* as it is written */
	const char *text;			/* without quotes */
	const char *pattern;		/* with \ before what quotes make ordinary */
	const char *schema;			/* objects: pattern; NULL: any */
	bool		all;
	bool		group;			/* users: text names a role, members are meant */
	StenoClient client;
} StenoRuleItem;

typedef struct StenoRuleList
{
	StenoRuleItem *items;
	uint32_t	count;
	bool		all;			/* one of them is */
} StenoRuleList;

typedef struct StenoRule
{
	const char *file;
	int			line;
	StenoRuleAction action;
	StenoRuleList columns[STENO_RULE_COLUMNS];
	uint32_t	classes;		/* a bit for each STENO_CLASS_* */
	const char *options;		/* as they are written */
	bool		no_parameters;
	bool		no_text;
	uint32_t	sample;			/* one of that many */
	const char *redact;			/* NULL: none */
	const char *statement;		/* pattern; NULL: any */
	uint64_t	seen;			/* statements that it has decided on here */
	uint32_t	tag;			/* the caller's */
} StenoRule;

typedef struct StenoRuleError
{
	const char *file;
	int			line;			/* 0: of the whole file */
	const char *message;
	uint32_t	before;			/* rules that were read before */
} StenoRuleError;

typedef struct StenoRules
{
	StenoRule  *rules;
	uint32_t	count;
	StenoRuleError *errors;
	uint32_t	error_count;
	struct StenoArenaChunk *arena;
} StenoRules;

#define STENO_RULES_REASON 256

typedef enum StenoRead
{
	STENO_READ_OK,
	STENO_READ_ABSENT,
	STENO_READ_FAILED
} StenoRead;

/* How files are read.  reason has room for STENO_RULES_REASON bytes. */
typedef struct StenoRuleFiles
{
	/* the whole file, in memory from malloc */
	StenoRead	(*read) (void *arg, const char *path, char **content, size_t *len, char *reason);
	/* names of a directory's files that end in .conf, sorted, each ended by a zero, the last by two */
	StenoRead	(*list) (void *arg, const char *path, char **names, char *reason);
	/* NULL: any expression will do */
	bool		(*check_regex) (void *arg, const char *regex, char *reason);
	void	   *arg;
} StenoRuleFiles;

/* A file that is not there has no rules.  NULL: out of memory. */
extern StenoRules *steno_rules_parse(const StenoRuleFiles *files, const char *path);
extern void steno_rules_free(StenoRules *rules);

/* The rules as one text, from malloc, ended by a zero; NULL: out of memory. */
extern char *steno_rules_write(const StenoRules *rules, size_t *len);
extern const char *steno_rule_action(StenoRuleAction action);

/* ---- deciding ---- */

typedef struct StenoRuleSession
{
	const char *user;			/* NULL: unknown */
	const char *database;
	const char *application;
	StenoClient client;			/* its address; bits are not looked at */
	bool		(*member) (void *arg, const char *group);
	void	   *arg;
} StenoRuleSession;

/* Rules of a choice, as ascending indexes. */
typedef struct StenoRuleMatches
{
	const uint32_t *indexes;
	uint32_t	count;
} StenoRuleMatches;

/* The rules that can match a session. */
typedef struct StenoChoice
{
	StenoRule **rules;
	uint32_t   *indexes;		/* plain's */
	uint32_t	count;
	StenoRuleMatches plain;		/* those that match whatever the relations are */
	uint32_t	skipped;		/* classes of which nothing is recorded */
	uint32_t	forced;			/* classes that are recorded whatever steno.log says */
	uint32_t	looked_at;		/* classes whose statements must be looked at */
	uint32_t	may_record;		/* of these, those that a rule may force */
	uint32_t	hiding;			/* of these, those whose text a rule may hide */
	uint32_t	syncing;		/* classes of which a rule may sync statements */
	uint32_t	synced;			/* of these, those of which all are */
	bool		objects;		/* some of them depend on relations */
} StenoChoice;

/* False: out of memory, and the choice is empty. */
extern bool steno_rules_choose(StenoRules *rules, const StenoRuleSession *session,
							   StenoChoice *choice);
extern void steno_choice_free(StenoChoice *choice);

/*
 * The rules that a relation matches.  Fills indexes, which has room for choice->count; returns how many.  schema NULL:
 * it is not known, and may be any for rules that record, and none for those that leave out.
 */
extern uint32_t steno_rules_of_object(const StenoChoice *choice, const char *schema,
									  const char *name, uint32_t *indexes);
extern StenoRule *steno_rules_first(const StenoChoice *choice, int class,
									const StenoRuleMatches *relations, uint32_t count,
									const char *text, size_t text_len);

/* Whether the statement is one of those that the rule's sample takes. */
static inline bool
steno_rule_sampled(StenoRule *rule)
{
	return rule->sample <= 1 || rule->seen++ % rule->sample == 0;
}

/* "10.0.0.0/8", "::1"; false: no address. */
extern bool steno_parse_address(const char *text, StenoClient *client);

#endif							/* STENO_RULES_H */
