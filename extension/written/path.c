/*
 * extension/written/path.c
 *		The schemas in which relations were looked for whose names are written without one.
 *
 * Which of them has the relation cannot be looked up in a failure.  A schema that the user may not use is not searched
 * at all, so the server says that there is no such relation: this is how a table is probed by its name alone.
 */
#include "base/steno.h"

#include <ctype.h>

#include "catalog/namespace.h"
#include "mb/pg_wchar.h"
#include "parser/scansup.h"

#include "describe/shape.h"
#include "written/written.h"

/* A longer search_path is not recorded. */
#define LONGEST_PATH 1024

/* As the server folds identifiers, which are not in quotes. */
static char
fold_case(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c + ('a' - 'A');
	if (IS_HIGHBIT_SET(c) && pg_database_encoding_max_length() == 1 && isupper((unsigned char) c))
		return tolower((unsigned char) c);
	return c;
}

/* Take the next schema of the setting; false: there are none, or the setting cannot be read. */
static bool
take_schema(const char **setting, char *name)
{
	const char *p = *setting;
	char	   *end = name;
	bool		quoted;

	while (*p == ',' || scanner_isspace(*p))
		p++;
	if (*p == '\0')
		return false;
	quoted = *p == '"';
	for (p += quoted; quoted ? *p != '\0' : *p != ',' && *p != '\0' && !scanner_isspace(*p); p++)
	{
		if (quoted && *p == '"' && *++p != '"')
			break;
		*end++ = quoted ? *p : fold_case(*p);
	}
	*end = '\0';
	/* as the server cuts identifiers */
	name[pg_mbcliplen(name, end - name, NAMEDATALEN - 1)] = '\0';
	*setting = p;
	return true;
}

/*
 * Add search_path to the record of a statement that names a relation without its schema.  user: the name of the role
 * that $user stands for; NULL if it is not known.
 */
void
steno_written_add_path(StenoRecord *record, const StenoWritten *w, const char *user)
{
	const char *setting = namespace_search_path;
	char		schema[LONGEST_PATH + 1];
	char		path[2 * LONGEST_PATH];
	uint8	   *p = (uint8 *) path;
	bool		any = false;
	int			i;

	for (i = 0; i < w->count; i++)
		any |= w->names[i].schema[0] == '\0';
	if (!any || setting == NULL || strlen(setting) > LONGEST_PATH)
		return;
	while (take_schema(&setting, schema))
	{
		const char *name = user && strcmp(schema, "$user") == 0 ? user : schema;

		if (name[0] == '\0')
			continue;
		/* a name may become twice as long in its quotes */
		if (p - (uint8 *) path + 2 * NAMEDATALEN + 8 > lengthof(path))
			return;
		if (p > (uint8 *) path)
			p = (uint8 *) memcpy(p, ", ", 2) + 2;
		p = steno_put_identifier(p, name);
	}
	*p = '\0';
	steno_record_add_extra(record, "search_path", path);
}
