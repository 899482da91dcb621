/*
 * core/test/rule_files.c
 *		Files in memory for the parser of rules.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/rule_files.h"

static StenoRead
read_memory(void *arg, const char *path, char **content, size_t *len, char *reason)
{
	MemoryFiles *m = arg;
	int			i;

	if (strcmp(path, "unreadable") == 0)
	{
		snprintf(reason, STENO_RULES_REASON, "it is locked");
		return STENO_READ_FAILED;
	}
	for (i = 0; i < m->count; i++)
		if (strcmp(m->files[i].name, path) == 0)
		{
			*len = m->files[i].len;
			*content = malloc(*len + 1);
			memcpy(*content, m->files[i].content, *len);
			return STENO_READ_OK;
		}
	return STENO_READ_ABSENT;
}

/* Files of a directory: those whose names begin with its path. */
static StenoRead
list_memory(void *arg, const char *path, char **names, char *reason)
{
	MemoryFiles *m = arg;
	size_t		n = strlen(path);
	size_t		total = 2;
	char	   *to;
	int			i;

	(void) reason;
	for (i = 0; i < m->count; i++)
		total += strlen(m->files[i].name) + 1;
	to = *names = calloc(1, total);
	for (i = 0; i < m->count; i++)
		if (strncmp(m->files[i].name, path, n) == 0 && m->files[i].name[n] == '/' &&
			m->files[i].name[n + 1] != '\0')
		{
			strcpy(to, m->files[i].name + n + 1);
			to += strlen(to) + 1;
		}
	if (to == *names)
	{
		free(*names);
		return STENO_READ_ABSENT;
	}
	return STENO_READ_OK;
}

static bool
check_regex(void *arg, const char *regex, char *reason)
{
	(void) arg;
	snprintf(reason, STENO_RULES_REASON, "parentheses () not balanced");
	return strchr(regex, '(') == NULL || strchr(regex, ')') != NULL;
}

void
memory_files(MemoryFiles *m, const MemoryFile *files, int count)
{
	m->files = files;
	m->count = count;
	m->functions.read = read_memory;
	m->functions.list = list_memory;
	m->functions.check_regex = check_regex;
	m->functions.arg = m;
}
